"""Train the same global batches in several processes that accumulate several batches: ``worlds.py FOLDER [--all]``.

One import of torch serves all: the processes are forks, and meet in a file. With ``--all`` both families in 1, 2 and 4
processes with 1, 2 and 4 batches; a table of how far each is from one process with one batch comes out.
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
from dialog.training.distributed.fsdp import FullyShardedStrategy, full_tensor, is_sharded, local_shard
from dialog.training.module import DialogModule
from dialog.training.trainer import quiet

SPLITS = ((1, 1), (1, 4), (2, 1), (2, 2), (4, 1))
ALL = tuple(product((1, 2, 4), (1, 2, 4)))
SHARDED = ((2, 1), (2, 2))
PRECISIONS = ("32-true", "64-true")
EPOCHS, STEPS, ROWS = 4, 5, 16
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

OPTIMIZERS = {"lstm": {"name": "adamw", "lr": 0.01}, "transformer": {"name": "sgd", "lr": 0.1}}
"""The gradient of a Transformer's key biases is 0 but for rounding, of which Adam would make whole steps."""


def examples() -> list[tuple[list[int], list[int]]]:
    """Of lengths that differ much: 5 steps of 16, of which the last has 8."""
    generator = torch.Generator().manual_seed(7)

    def words(most: int) -> list[int]:
        count = int(torch.randint(1, most + 1, (1,), generator=generator))
        return torch.randint(6, 20, (count,), generator=generator).tolist()

    contexts = [[SELF, *words(4), OTHER, *words(5), EOS] for _ in range(STEPS * ROWS - ROWS // 2)]
    return [(context, [BOS, *words(1 + place % 9), EOS]) for place, context in enumerate(contexts)]


class Share:
    """The batches of a process, so many a step; the last step of an epoch has half as many, if it can."""

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
    """What is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, float]] = []

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.lines.append({"step": step, **metrics})


class Apart(Callback):
    """Notes whether gradients have been shared before a step's last batch."""

    def __init__(self) -> None:
        self.shared: list[bool] = []

    def on_train_batch_end(self, trainer: lightning.Trainer, module: Any, *given: object) -> None:  # noqa: ANN401 - a DialogModule
        if trainer.fit_loop._should_accumulate() and trainer.world_size > 1 and not is_sharded(module):
            mine = torch.cat([each.grad.flatten() for each in module.parameters() if each.grad is not None])
            all_of_them = [torch.empty_like(mine) for _ in range(trainer.world_size)]
            dist.all_gather(all_of_them, mine)
            self.shared.append(torch.equal(*all_of_them[:2]))


def fit(
    family: str, precision: str, rank: int, world: int, accumulated: int, *, sharded: bool = False
) -> dict[str, Any]:
    """20 steps."""
    torch.manual_seed(0)
    head = {"name": "pointer_generator", "coverage": 0.5}
    saves = sharded and family == "transformer"  # layers are gathered to be computed again
    given = {**FAMILIES[family], "activation_checkpointing": saves}
    model = Seq2Seq(20, padding=PAD, embedding_size=6, head=head, turn_tokens=(OTHER, SELF), **given)
    torch.manual_seed(rank)
    if sharded and rank:  # the first process's weights are those that count
        torch.nn.init.normal_(next(model.parameters()))
    same = {"name": "denoising", "deletion": 0.0, "masking": 0.0, "distance": 0, "weight": 0.2}
    module = DialogModule(
        model,
        padding=PAD,
        optimizer=OPTIMIZERS[family],
        objectives=[{"name": "reverse", "weight": 0.3}, same],
    )
    record, apart = Record(), Apart()
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
        callbacks=[apart],
        use_distributed_sampler=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, Share(rank, world, accumulated))
    weights = torch.cat([full_tensor(each).detach().flatten() for each in model.parameters()])
    states = [each for state in trainer.optimizers[0].state.values() for each in state.values() if each.dim()]
    return {
        **{"lines": record.lines, "weights": weights, "shared": apart.shared, "tokens": module.target_tokens},
        "weights here": sum(local_shard(each).numel() for each in model.parameters()),
        "states here": sum(local_shard(each).numel() for each in states),
    }


def work(rank: int, world: int, folder: Path, every: bool) -> None:
    """All settings of a process."""
    warnings.simplefilter("ignore")
    quiet()
    if world > 1:
        os.environ["LOCAL_RANK"] = str(rank)
        dist.init_process_group("gloo", init_method=f"file://{folder}/{world}", rank=rank, world_size=world)
    for family, precision, split in product(FAMILIES, PRECISIONS, ALL if every else SPLITS):
        if split[0] == world:
            found = fit(family, precision, rank, *split)
            if rank == 0:
                torch.save(found, folder / f"{family}-{precision}-{world}-{split[1]}.pt")
    for family, split in product(FAMILIES, SHARDED):
        if split[0] == world:
            found = fit(family, "32-true", rank, *split, sharded=True)
            torch.save(found, folder / f"{family}-sharded-{split[1]}-{rank}.pt")


def far(folder: Path) -> None:
    """The table."""
    print("| family | precision | processes | batches a step | train/loss, most apart | weights, most apart |")
    print("| --- | --- | ---: | ---: | ---: | ---: |")
    for family, precision, split in product(FAMILIES, PRECISIONS, ALL):
        one, other = (
            torch.load(folder / f"{family}-{precision}-{world}-{accumulated}.pt", weights_only=True)
            for world, accumulated in ((1, 1), split)
        )
        lines = zip(one["lines"], other["lines"], strict=True)
        loss = max(abs(line["train/loss"] - also["train/loss"]) for line, also in lines)
        weights = (one["weights"] - other["weights"]).abs().max().item()
        print(f"| {family} | {precision} | {split[0]} | {split[1]} | {loss:.1e} | {weights:.1e} |")


if __name__ == "__main__":
    torch.set_num_threads(1)
    folder, every = Path(sys.argv[1]), "--all" in sys.argv
    for world in (1, 2, 4):
        fork = get_context("fork").Process
        processes = [fork(target=work, args=(rank, world, folder, every)) for rank in range(world)]
        for each in processes:
            each.start()
        for each in processes:
            each.join()
        if any(each.exitcode for each in processes):
            sys.exit(1)
    if every:
        far(folder)
