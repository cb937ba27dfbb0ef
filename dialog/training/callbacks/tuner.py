"""Lightning's Tuner: the learning-rate range test, and the largest batch that fits in memory."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.tuner.tuning import Tuner

from dialog.data.batching import Batch
from dialog.data.datamodule import BatchLoader, DialogDataModule
from dialog.data.store.store import Store
from dialog.errors import out_of_memory
from dialog.report.progress import ProgressBars
from dialog.training.callbacks.peak_memory import peak_memory
from dialog.training.lightning_internals import finder_bar, listen_for_signals
from dialog.training.module import DialogModule

BETA = 0.98
"""Decay of the moving average that Lightning applies to the losses."""


class RangeTest(NamedTuple):
    """The loss of each batch, before the step at its learning rate."""

    rates: list[float]
    losses: list[float]


def try_rates(
    trainer: Trainer,
    module: DialogModule,
    data: DialogDataModule,
    *,
    lowest: float,
    highest: float,
    steps: int,
) -> RangeTest:
    """Raise the learning rate exponentially at each step until the loss has risen fourfold; Smith
    2017, 3.3.

    The weights are restored afterwards.
    """
    silence_lightning()
    # an exception that a handler raises inside a finalizer would be lost
    listen_for_signals(trainer)
    with ProgressBars() as bars, finder_bar(partial(FinderBar, bars)):
        finder = Tuner(trainer).lr_find(
            module,
            datamodule=data,
            min_lr=lowest,
            max_lr=highest,
            num_training=steps,
            update_attr=False,
        )
    assert finder is not None
    losses = unsmoothed([float(loss) for loss in finder.results["loss"]])
    return RangeTest([float(rate) for rate in finder.results["lr"]][: len(losses)], losses)


class FinderBar:
    """Progress of the learning-rate finder, with the methods of tqdm that it calls."""

    def __init__(self, bars: ProgressBars, desc: str, total: int) -> None:
        self.bars = bars
        self.total = total
        self.done = 0

    def update(self) -> None:
        """Count one more learning rate."""
        self.done += 1
        self.bars.show("trying learning rates", self.done, self.total)

    def close(self) -> None:
        """Do nothing: `bars` is closed by its owner."""


def unsmoothed(means: Sequence[float]) -> list[float]:
    """Recover the losses l_k from Lightning's means m_k = a_k / (1 - b^(k + 1)), a_k = b a_(k - 1)
    + (1 - b) l_k.

    The means lag far behind: they still fall when the learning rate is much too high.
    """
    sums = [0.0, *(mean * (1 - BETA ** (step + 1)) for step, mean in enumerate(means, start=1))]
    return [(after - BETA * before) / (1 - BETA) for before, after in pairwise(sums)]


class BatchTrial(NamedTuple):
    """Speed and peak memory of training with a batch size."""

    batch_tokens: int
    target_tokens_per_second: float
    peak_memory: int


class HeaviestBatches(DialogDataModule):
    """The most expensive batches of a plan; records each batch size that fits in memory in
    ``trials``.
    """

    STEPS = 3

    def __init__(self, data: DialogDataModule, batch_tokens: int) -> None:
        super().__init__(
            data.folder, batch_tokens=batch_tokens, seed=data.seed, retokenise=data.retokenise
        )
        self.trials: list[BatchTrial] = []

    def train_dataloader(self) -> HeaviestLoader:  # type: ignore[override]  # Lightning takes any iterable
        """Return the loader of these batches only."""
        assert self.trainer is not None
        return HeaviestLoader(
            super().train_dataloader(), self.trainer.strategy.root_device, self.trials
        )


class HeaviestLoader:
    """The batch with the most target tokens, then three times the one with the most tokens; the
    second is timed.
    """

    def __init__(self, loader: BatchLoader, device: torch.device, trials: list[BatchTrial]) -> None:
        self.loader = loader
        self.device = device
        self.trials = trials

    def __len__(self) -> int:
        return HeaviestBatches.STEPS + 1

    def __iter__(self) -> Iterator[Batch]:
        most_tokens, most_target_tokens, _ = self.loader.heaviest()
        yield most_target_tokens
        yield most_tokens
        start = time.monotonic()
        yield most_tokens
        rate = most_tokens.target_tokens / (time.monotonic() - start)
        self.trials.append(BatchTrial(self.loader.batch_tokens, rate, peak_memory(self.device)))
        yield most_tokens


def try_batch_tokens(
    trainer: Trainer, module: DialogModule, data: DialogDataModule, *, first: int, most: int
) -> list[BatchTrial]:
    """Double ``data.batch_tokens`` from ``first`` up to ``most`` while a step fits in memory.

    A size fits when the most expensive batches of its plan have passed a whole step, the
    optimizer's included.
    """
    heaviest = HeaviestBatches(data, first)
    silence_lightning()
    classes = Store(data.folder, "train").classes
    split_tokens = int((classes.counts * (classes.sources + classes.targets)).sum())
    with bounded_memory():
        try:
            Tuner(trainer).scale_batch_size(
                module,
                datamodule=heaviest,
                steps_per_trial=HeaviestBatches.STEPS + 1,
                init_val=first,
                max_val=max(first, min(most, 2 * split_tokens)) + 1,  # exclusive
                batch_arg_name="batch_tokens",
            )
        except (MemoryError, RuntimeError) as error:
            if not heaviest.trials or not (isinstance(error, MemoryError) or out_of_memory(error)):
                raise
    return heaviest.trials


def silence_lightning() -> None:
    """Log only warnings of Lightning: its Tuner logs every step."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)


@contextmanager
def bounded_memory() -> Iterator[None]:
    """On Linux, limit this process to the memory that is free now: it gets a MemoryError and is not
    killed.
    """
    if not Path("/proc/meminfo").is_file():
        yield
        return
    import resource

    resident = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = resident + int(0.9 * free_memory())
    lowest = min(limit for limit in (bound, soft, hard) if limit != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_AS, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def free_memory() -> int:
    """Return the free bytes of the system, or of this container if those are fewer."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    if limit.is_file() and (most := limit.read_text().strip()) != "max":
        free = min(free, int(most) - int(used.read_text()))
    return free
