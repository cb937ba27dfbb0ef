"""Memory of training: test of the largest batches before the first epoch, out-of-memory errors, and
peaks.
"""

from __future__ import annotations

import logging
import re
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.strategies import ParallelStrategy
from lightning.pytorch.utilities.seed import isolate_rng

from dialog.data.batching import Batch
from dialog.data.datamodule import BatchLoader
from dialog.data.preparation.filtering import Names
from dialog.data.tokenizers.tokenizer import PAD
from dialog.errors import UserError, out_of_memory
from dialog.report.formats.numbers import duration
from dialog.training.module import DialogModule
from dialog.training.step import StepSums

NAMED = 3
"""Examples named in an out-of-memory message."""

PROCESS = Path("/proc/self")

log = logging.getLogger("dialog")


class Memory(Callback):
    """Runs the heaviest batches before the first epoch; on out-of-memory, names the batch.

    The heaviest batches are those with the most tokens and with the most target tokens, padding
    included. They run forward and backward as in a step, but weights, gradients, random numbers and
    counts stay as they were. One line states peak memory, target tokens per second, and the
    duration of training if cost is proportional to padded tokens.

    Args:
        preflight: Run the heaviest batches.
    """

    def __init__(self, *, preflight: bool = True) -> None:
        self.preflight = preflight
        self.batch: Batch | None = None
        self.split = "train"

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Run the heaviest batches and log the cost."""
        loader = trainer.train_dataloader
        assert isinstance(module, DialogModule)
        if not self.preflight or not isinstance(loader, BatchLoader):
            return
        most_tokens, most_target_tokens, relative_cost = loader.heaviest()
        heaviest = [most_tokens]
        # every rank runs the same number of batches
        if trainer.world_size > 1 or not torch.equal(most_tokens.rows, most_target_tokens.rows):
            heaviest.append(most_target_tokens)
        strategy = trainer.strategy
        with untouched(module):
            for batch in (*heaviest, most_tokens):  # the last time, it is measured
                self.batch = batch
                started = time.monotonic()
                no_sync = (
                    strategy.block_backward_sync()
                    if isinstance(strategy, ParallelStrategy)
                    else nullcontext()
                )
                with no_sync:
                    loss = strategy.training_step(strategy.batch_to_device(batch), 0)
                    assert isinstance(loss, torch.Tensor)
                    torch.autograd.backward(loss)
                module.zero_grad()
                if module.device.type == "cuda":
                    torch.cuda.synchronize(module.device)
                seconds = time.monotonic() - started
        self._log(trainer, module, most_tokens, seconds, relative_cost)

    def on_train_batch_start(
        self, trainer: Trainer, module: LightningModule, batch: Batch, batch_index: int
    ) -> None:
        """Remember the current batch."""
        self.batch = batch
        self.split = "train"

    def on_validation_batch_start(
        self,
        trainer: Trainer,
        module: LightningModule,
        batch: Batch,
        batch_index: int,
        dataloader_index: int = 0,
    ) -> None:
        """Remember the current batch."""
        self.batch = batch
        self.split = "validation"

    @contextmanager
    def explained(self, names: Names, *, remedy: str) -> Iterator[None]:
        """On out-of-memory, name the batch and the ``remedy``.

        Raises:
            UserError: in place of torch's error.
        """
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if self.batch is None or not out_of_memory(error):
                raise
            traceback.clear_frames(error.__traceback__)  # their variables hold the memory
            raise UserError(
                f"out of memory with {self._described(self.batch, names)}; {remedy}"
            ) from error

    def _log(
        self,
        trainer: Trainer,
        module: LightningModule,
        batch: Batch,
        seconds: float,
        relative_cost: float,
    ) -> None:
        rate = torch.tensor(batch.target_tokens / seconds, device=module.device)
        rate = trainer.strategy.reduce(rate, reduce_op="sum")
        figures = (
            f"{shape(batch)}: peak memory {peak_memory(module.device) / 2**30:.2f} GiB, {rate:,.0f}"
            " target tokens/s"
        )
        steps = trainer.estimated_stepping_batches - trainer.global_step
        if 0 < steps < float("inf"):
            left = steps * trainer.accumulate_grad_batches * seconds / relative_cost
            figures += f"; {steps:,} steps, about {duration(left)} without validation"
        if trainer.is_global_zero:
            log.info("preflight with the largest batch, %s", figures)

    def _described(self, batch: Batch, names: Names) -> str:
        lengths = (batch.source != PAD).sum(1) + (batch.target != PAD).sum(1)
        rows = batch.rows[lengths.argsort(descending=True)[:NAMED]].tolist()
        ids: Mapping[int, str] = {}
        with suppress(Exception):  # the message is useful without ids
            ids = names(self.split, rows)
        longest = ", ".join(ids.get(row, f"row {row}") for row in rows)
        return f"{shape(batch)} of {self.split}, the longest being {longest}"


def shape(batch: Batch) -> str:
    """Describe a batch: rows x (source + target) tokens."""
    rows, source = batch.source.shape
    return f"{rows} x ({source} + {batch.target.shape[1] - 1}) tokens"


@contextmanager
def untouched(module: DialogModule) -> Iterator[None]:
    """Log nothing; restore gradients, random numbers and counts afterwards."""
    gradients = [(parameter, parameter.grad) for parameter in module.parameters()]
    tokens = module.target_tokens
    sums = module.step_sums
    module.step_sums = StepSums()
    for parameter, _ in gradients:
        parameter.grad = None
    vars(module)["log"] = lambda *values, **options: None
    try:
        with isolate_rng():
            yield
    finally:
        del vars(module)["log"]
        module.target_tokens = tokens
        module.step_sums = sums
        for parameter, gradient in gradients:
            parameter.grad = gradient


# ------------------------------------------------------------------ peaks


def reset_peak() -> None:
    """Reset the peak where the system supports it, so that earlier work does not count."""
    with suppress(OSError):
        (PROCESS / "clear_refs").write_text("5")
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak_memory(device: torch.device) -> int:
    """Return bytes since `reset_peak`: of all tensors on a GPU, else of the whole process."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else process_peak()


def process_peak() -> int:
    """Return the peak of resident memory in bytes; 0 on Windows, which has no such figure."""
    with suppress(OSError):
        match = re.search(r"^VmHWM:\s+(\d+) kB", (PROCESS / "status").read_text(), re.MULTILINE)
        if match:
            return int(match[1]) * 1024
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def cuda_peak() -> int | None:
    """Return the peak of tensor memory on the GPU in bytes, or None without a GPU."""
    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
