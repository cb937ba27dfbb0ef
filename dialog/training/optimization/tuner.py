"""What Lightning's Tuner tries: learning rates that rise step by step, and batches that grow until memory ends."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import torch
from lightning.pytorch import Trainer
from lightning.pytorch.tuner.tuning import Tuner

from dialog.data.batching import Batch
from dialog.data.datamodule import BatchLoader, DialogDataModule
from dialog.data.store.store import Store
from dialog.training.callbacks.memory import out_of_memory, peak_memory
from dialog.training.module import DialogModule

BETA = 0.98
"""Of the sliding mean in which Lightning hides the losses."""


class RangeTest(NamedTuple):
    """The loss of the batch before a step at each learning rate."""

    rates: list[float]
    losses: list[float]


def try_rates(
    trainer: Trainer, module: DialogModule, data: DialogDataModule, *, lowest: float, highest: float, steps: int
) -> RangeTest:
    """Raise the learning rate exponentially, a step each, until the loss has gone up fourfold; Smith 2017, 3.3.

    The weights are then as they were.
    """
    hushed()
    found = Tuner(trainer).lr_find(
        module, datamodule=data, min_lr=lowest, max_lr=highest, num_training=steps, update_attr=False
    )
    assert found is not None
    losses = unsmoothed([float(loss) for loss in found.results["loss"]])
    return RangeTest([float(rate) for rate in found.results["lr"]][: len(losses)], losses)


def unsmoothed(means: Sequence[float]) -> list[float]:
    """The losses l_k of which Lightning's callback makes m_k = a_k / (1 - b^(k + 1)), a_k = b a_(k - 1) + (1 - b) l_k.

    These means lag far behind: they still fall when the learning rate is much too high.
    """
    sums = [0.0, *(mean * (1 - BETA ** (step + 1)) for step, mean in enumerate(means, start=1))]
    return [(after - BETA * before) / (1 - BETA) for before, after in pairwise(sums)]


class Tried(NamedTuple):
    """What steps with batches of so many tokens took."""

    batch_tokens: int
    target_tokens_per_second: float
    peak_memory: int


class HeaviestBatches(DialogDataModule):
    """The batches of a plan that ask most of memory, and what a step with them took: a size that passes is noted."""

    STEPS = 3

    def __init__(self, data: DialogDataModule, batch_tokens: int) -> None:
        super().__init__(data.folder, batch_tokens=batch_tokens, seed=data.seed, retokenise=data.retokenise)
        self.tried: list[Tried] = []

    def train_dataloader(self) -> HeaviestLoader:  # type: ignore[override]  # Lightning takes any iterable
        """These batches only."""
        return HeaviestLoader(super().train_dataloader(), self.tried)


class HeaviestLoader:
    """The costliest batch, the one with the most target tokens, and it again, for a step that is timed."""

    def __init__(self, loader: BatchLoader, tried: list[Tried]) -> None:
        self.loader = loader
        self.tried = tried

    def __len__(self) -> int:
        return HeaviestBatches.STEPS + 1

    def __iter__(self) -> Iterator[Batch]:
        most_tokens, most_target_tokens, _ = self.loader.heaviest()
        yield most_target_tokens
        yield most_tokens
        began = time.monotonic()
        yield most_tokens
        rate = most_tokens.target_tokens / (time.monotonic() - began)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.tried.append(Tried(self.loader.batch_tokens, rate, peak_memory(device)))
        yield most_tokens


def try_batch_tokens(
    trainer: Trainer, module: DialogModule, data: DialogDataModule, *, first: int, most: int
) -> list[Tried]:
    """Double ``data.batch_tokens`` from ``first`` while memory suffices for a step, and it is no more than ``most``.

    A size counts when the heaviest batches of its plan have gone through a whole step, the optimizer's included.
    """
    heaviest = HeaviestBatches(data, first)
    hushed()
    classes = Store(data.folder, "train").classes
    whole = int((classes.counts * (classes.sources + classes.targets)).sum())
    with bounded_memory():
        try:
            Tuner(trainer).scale_batch_size(
                module,
                datamodule=heaviest,
                steps_per_trial=HeaviestBatches.STEPS + 1,
                init_val=first,
                max_val=max(first, min(most, 2 * whole)) + 1,  # which the Tuner does not try
                batch_arg_name="batch_tokens",
            )
        except (MemoryError, RuntimeError) as error:
            if not heaviest.tried or not (isinstance(error, MemoryError) or out_of_memory(error)):
                raise
    return heaviest.tried


def hushed() -> None:
    """Lightning says each of its steps; we say what comes out."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)


@contextmanager
def bounded_memory() -> Iterator[None]:
    """On Linux, this process gets no more memory than is free now: it is told so before the system ends it."""
    if not Path("/proc/meminfo").is_file():
        yield
        return
    import resource

    own = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    bound = own + int(0.9 * free_memory())
    lowest = min(each for each in (bound, soft, hard) if each != resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_AS, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def free_memory() -> int:
    """Bytes that the system, and this container, have free."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    limit, used = (Path("/sys/fs/cgroup") / name for name in ("memory.max", "memory.current"))
    if limit.is_file() and (most := limit.read_text().strip()) != "max":
        free = min(free, int(most) - int(used.read_text()))
    return free
