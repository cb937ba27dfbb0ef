"""What training asks of memory: seen before its first epoch, and said where it does not suffice."""

from __future__ import annotations

import logging
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import ParallelStrategy
from lightning.pytorch.utilities.memory import is_oom_error
from lightning.pytorch.utilities.seed import isolate_rng

from dialog.data.batching import Batch
from dialog.data.datamodule import BatchLoader
from dialog.data.preparation.example_ids import Names
from dialog.data.tokenizers.tokenizer import PAD
from dialog.errors import UserError
from dialog.training.module import DialogModule
from dialog.training.sums import StepSums

NAMED = 3
"""Examples that are named where memory does not suffice."""

log = logging.getLogger("dialog")


class Memory(Callback):
    """Runs the heaviest batches before the first epoch, and names the batch for which there is no memory.

    The heaviest are the one with the most tokens and the one with the most target tokens, padding included. They go
    forward and back as a step does, but no weight, gradient, random number or count is other afterwards: training goes
    as it would without. One line says the peak memory, target tokens a second, and how long the training will take if
    each batch costs as its padded tokens.

    Args:
        preflight: Whether the heaviest batches are run.
    """

    def __init__(self, *, preflight: bool = True) -> None:
        self.preflight = preflight
        self.batch: Batch | None = None
        self.split = "train"

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Run them and say what it took."""
        loader = trainer.train_dataloader
        assert isinstance(module, DialogModule)
        if not self.preflight or not isinstance(loader, BatchLoader):
            return
        most_tokens, most_target_tokens, relative_cost = loader.heaviest()
        with untouched(module):
            self._run(trainer, module, most_tokens)
            same = torch.equal(most_tokens.rows, most_target_tokens.rows)
            if trainer.world_size > 1 or not same:  # every rank runs the same number of batches
                self._run(trainer, module, most_target_tokens)
            began = time.monotonic()
            self._run(trainer, module, most_tokens)
            seconds = time.monotonic() - began
        self._say(trainer, module, most_tokens, seconds, relative_cost)

    def on_train_batch_start(self, trainer: Trainer, module: LightningModule, batch: Batch, batch_index: int) -> None:
        """Remember what is in the works."""
        self.batch, self.split = batch, "train"

    def on_validation_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: Batch, batch_index: int, dataloader_index: int = 0
    ) -> None:
        """Remember what is in the works."""
        self.batch, self.split = batch, "validation"

    @contextmanager
    def explained(self, names: Names, *, mend: str) -> Iterator[None]:
        """Where memory does not suffice, say for which batch, and how to ``mend`` it.

        Raises:
            UserError: instead of what torch raises.
        """
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if self.batch is None or not (isinstance(error, MemoryError) or out_of_memory(error)):
                raise
            traceback.clear_frames(error.__traceback__)  # they hold what filled the memory
            raise UserError(f"out of memory with {self._described(self.batch, names)}; {mend}") from error

    def _run(self, trainer: Trainer, module: LightningModule, batch: Batch) -> None:
        """One batch forward and back, as in a step of the training."""
        self.batch = batch
        strategy = trainer.strategy
        alone = strategy.block_backward_sync() if isinstance(strategy, ParallelStrategy) else nullcontext()
        with alone:
            loss = strategy.training_step(strategy.batch_to_device(batch), 0)
            assert isinstance(loss, torch.Tensor)
            torch.autograd.backward(loss)
        module.zero_grad()
        if module.device.type == "cuda":
            torch.cuda.synchronize(module.device)

    def _say(self, trainer: Trainer, module: LightningModule, batch: Batch, seconds: float, share: float) -> None:
        rate = torch.tensor(batch.target_tokens / seconds, device=module.device)
        rate = trainer.strategy.reduce(rate, reduce_op="sum")
        said = f"{shape(batch)}: peak memory {peak_memory(module.device) / 2**30:.2f} GiB, {rate:,.0f} target tokens/s"
        steps = trainer.estimated_stepping_batches - trainer.global_step
        if 0 < steps < float("inf"):
            left = steps * trainer.accumulate_grad_batches * seconds / share
            said += f"; {steps:,} steps, about {duration(left)} without validation"
        if trainer.is_global_zero:
            log.info("preflight with the largest batch, %s", said)

    def _described(self, batch: Batch, names: Names) -> str:
        lengths = (batch.source != PAD).sum(1) + (batch.target != PAD).sum(1)
        rows = batch.rows[lengths.argsort(descending=True)[:NAMED]].tolist()
        known: Mapping[int, str] = {}
        with suppress(Exception):  # the message matters more than its ornament
            known = names(self.split, rows)
        said = ", ".join(known.get(row, f"row {row}") for row in rows)
        return f"{shape(batch)} of {self.split}, the longest being {said}"


def shape(batch: Batch) -> str:
    """A batch's size in words."""
    rows, source = batch.source.shape
    return f"{rows} x ({source} + {batch.target.shape[1] - 1}) tokens"


@contextmanager
def untouched(module: DialogModule) -> Iterator[None]:
    """Nothing is logged, and afterwards gradients, random numbers and counts are as before."""
    gradients = [(parameter, parameter.grad) for parameter in module.parameters()]
    tokens, sums = module.target_tokens, module.step_sums
    module.step_sums = StepSums()
    for parameter, _ in gradients:
        parameter.grad = None
    vars(module)["log"] = lambda *values, **options: None
    try:
        with isolate_rng():
            yield
    finally:
        del vars(module)["log"]
        module.target_tokens, module.step_sums = tokens, sums
        for parameter, gradient in gradients:
            parameter.grad = gradient


def out_of_memory(error: RuntimeError) -> bool:
    """Whether torch says that there is no memory: on a GPU, by its allocator of a CPU, or below it."""
    return isinstance(error, torch.OutOfMemoryError) or is_oom_error(error) or "not enough memory" in str(error)


def peak_memory(device: torch.device) -> int:
    """Bytes: on a GPU of all tensors so far, else of the whole process; 0 on Windows, which does not say."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    if sys.platform == "win32":
        return 0
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def duration(seconds: float) -> str:
    """50 s, 12 min, 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
