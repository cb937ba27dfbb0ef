"""Train on the same global batches with different world sizes and micro-batches:
``worlds.py FOLDER [--all]``.

The processes are forks, so torch is imported once; they rendezvous through a file. ``--all`` trains
with world sizes 1, 2 and 4 and with 1, 2 and 4 micro-batches, in float32 and float64, and prints
how much each differs from one process with one micro-batch.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import lightning
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers.logger import DummyLogger

from dialog.data.batching import Batch, collate
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF
from dialog.models.seq2seq import Seq2Seq
from dialog.training.distributed.fsdp import (
    FullyShardedStrategy,
    full_tensor,
    is_sharded,
    local_shard,
)
from dialog.training.module import DialogModule
from dialog.training.trainer import quiet

SPLITS = {"32-true": ((1, 1),), "64-true": ((1, 1), (1, 4), (2, 1), (2, 2))}
"""World size and micro-batches of the runs of each precision."""
ALL = dict.fromkeys(SPLITS, tuple(product((1, 2, 4), (1, 2, 4))))
SHARDED = {"lstm": (2, 1), "transformer": (2, 2)}
"""World size and micro-batches of the sharded run of each family."""
EPOCHS, STEPS, ROWS = 2, 5, 16
FAMILIES: dict[str, dict[str, Any]] = {
    "lstm": {
        "encoder": {"name": "lstm", "size": 6},
        "decoder": {"name": "lstm_luong", "size": 6, "attention": {"name": "additive", "size": 6}},
    },
    "transformer": {
        "encoder": {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 1},
        "decoder": {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 1},
    },
}

OPTIMIZERS = {
    "lstm": {"name": "adamw", "lr": 0.01, "eps": 1e-4},
    "transformer": {"name": "sgd", "lr": 0.1},
}
"""SGD for the Transformer: the gradient of its key biases is only rounding, which Adam would scale
to whole steps.

That of the LSTM's attention query is hardly more at first, hence the large epsilon.
"""


def examples() -> list[tuple[list[int], list[int]]]:
    """Examples of very different lengths: 5 steps of 16 rows, the last one of 8."""
    generator = torch.Generator().manual_seed(7)

    def words(most: int) -> list[int]:
        count = int(torch.randint(1, most + 1, (1,), generator=generator))
        return torch.randint(6, 20, (count,), generator=generator).tolist()

    contexts = [[SELF, *words(4), OTHER, *words(5), EOS] for _ in range(STEPS * ROWS - ROWS // 2)]
    return [(context, [BOS, *words(1 + place % 9), EOS]) for place, context in enumerate(contexts)]


class Share:
    """The micro-batches of one rank; the last step of an epoch has half as many, if they can be
    halved.
    """

    def __init__(self, rank: int, world: int, accumulated: int) -> None:
        rows, self.batches = examples(), list[Batch]()
        for first in range(0, len(rows), ROWS):
            step = rows[first : first + ROWS]
            parts = world * max(1, accumulated * len(step) // ROWS)
            size = len(step) // parts
            mine = [step[part * size : (part + 1) * size] for part in range(rank, parts, world)]
            self.batches += [collate(each, range(len(each))) for each in mine]

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Batch]:
        return iter(self.batches)


class Record(DummyLogger):
    """Keeps the logged metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, float]] = []

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.lines.append({"step": step, **metrics})


class Reductions(Callback):
    """Records whether ranks have equal gradients before a step's last micro-batch."""

    def __init__(self) -> None:
        self.equal: list[bool] = []

    def on_train_batch_end(self, trainer: lightning.Trainer, module: Any, *arguments: Any) -> None:
        *_, index = arguments
        accumulates = (
            index + 1
        ) % trainer.accumulate_grad_batches and index + 1 < trainer.num_training_batches
        if accumulates and trainer.world_size > 1 and not is_sharded(module):
            gradient = torch.cat(
                [each.grad.flatten() for each in module.parameters() if each.grad is not None]
            )
            gradients = [torch.empty_like(gradient) for _ in range(trainer.world_size)]
            dist.all_gather(gradients, gradient)
            self.equal.append(torch.equal(*gradients[:2]))


def fit(
    family: str, precision: str, rank: int, world: int, accumulated: int, *, sharded: bool = False
) -> dict[str, Any]:
    """Train; return what is logged, and the weights."""
    torch.manual_seed(0)
    head = {"name": "pointer_generator", "coverage": 0.5}
    # layers are gathered again for the recomputation
    checkpointed = sharded and family == "transformer"
    parts = {**FAMILIES[family], "activation_checkpointing": checkpointed}
    model = Seq2Seq(
        20, padding=PAD, embedding_size=6, head=head, turn_tokens=(OTHER, SELF), **parts
    )
    torch.manual_seed(rank)
    if sharded and rank:  # only the first rank's weights count
        torch.nn.init.normal_(next(model.parameters()))
    copying = {"name": "denoising", "deletion": 0.0, "masking": 0.0, "distance": 0, "weight": 0.2}
    module = DialogModule(
        model,
        padding=PAD,
        optimizer=OPTIMIZERS[family],
        objectives=[{"name": "reverse", "weight": 0.3}, copying],
    )
    record, reductions = Record(), Reductions()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=world,
        strategy=FullyShardedStrategy() if sharded else "ddp" if world > 1 else "auto",
        precision=precision,
        max_epochs=EPOCHS,
        accumulate_grad_batches=accumulated,
        gradient_clip_val=1.0,
        log_every_n_steps=1,
        logger=record,
        callbacks=[reductions],
        use_distributed_sampler=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, Share(rank, world, accumulated))
    weights = torch.cat([full_tensor(each).detach().flatten() for each in model.parameters()])
    states = [
        each
        for state in trainer.optimizers[0].state.values()
        for each in state.values()
        if each.dim()
    ]
    return {
        **{
            "lines": record.lines,
            "weights": weights,
            "equal gradients": reductions.equal,
            "tokens": module.target_tokens,
        },
        "weights here": sum(local_shard(each).numel() for each in model.parameters()),
        "states here": sum(local_shard(each).numel() for each in states),
    }


def work(rank: int, world: int, folder: Path, every: bool) -> None:
    """Train every run that one rank of a world takes part in."""
    warnings.simplefilter("ignore")
    quiet()
    if world > 1:
        os.environ["LOCAL_RANK"] = str(rank)
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/{world}", rank=rank, world_size=world
        )
    for precision, splits in (ALL if every else SPLITS).items():
        for family, split in product(FAMILIES, splits):
            if split[0] == world:
                result = fit(family, precision, rank, *split)
                if rank == 0:
                    torch.save(result, folder / f"{family}-{precision}-{world}-{split[1]}.pt")
    for family, split in SHARDED.items():
        if split[0] == world:
            result = fit(family, "32-true", rank, *split, sharded=True)
            torch.save(result, folder / f"{family}-sharded-{split[1]}-{rank}.pt")


def print_differences(folder: Path) -> None:
    print(
        "| family | precision | world size | micro-batches | largest difference of train/loss | of"
        " the weights |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for family, (precision, splits) in product(FAMILIES, ALL.items()):
        for split in splits:
            print_difference(folder, family, precision, split)


def print_difference(folder: Path, family: str, precision: str, split: tuple[int, int]) -> None:
    one, other = (
        torch.load(folder / f"{family}-{precision}-{world}-{accumulated}.pt", weights_only=True)
        for world, accumulated in ((1, 1), split)
    )
    pairs = zip(one["lines"], other["lines"], strict=True)
    loss = max(abs(line["train/loss"] - also["train/loss"]) for line, also in pairs)
    weights = (one["weights"] - other["weights"]).abs().max().item()
    print(f"| {family} | {precision} | {split[0]} | {split[1]} | {loss:.1e} | {weights:.1e} |")


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, every = Path(sys.argv[1]), "--all" in sys.argv
    for world in (1, 2, 4) if every else (1, 2):
        fork = get_context("fork").Process
        processes = [fork(target=work, args=(rank, world, folder, every)) for rank in range(world)]
        for each in processes:
            each.start()
        for each in processes:
            each.join()
        if any(each.exitcode for each in processes):
            sys.exit(1)
    if every:
        print_differences(folder)
