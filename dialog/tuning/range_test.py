"""Learning-rate range test and batch-size test: short trainings that are not kept."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dialog.build import build_data, build_model, build_module, build_trainer, for_this_hardware
from dialog.config.schema import Recipe
from dialog.data.batching import Batch
from dialog.data.datamodule import BatchLoader, DialogDataModule
from dialog.data.store.store import Store
from dialog.errors import UserError, out_of_memory
from dialog.report.progress import ProgressBars
from dialog.runs.check import check_recipe
from dialog.runs.prepare import prepare_data
from dialog.training.callbacks.memory import peak_memory
from dialog.training.callbacks.trial import RangeTest, RateRamp
from dialog.training.checkpoints.initial_weights import check_initial_weights, load_initial_weights
from dialog.training.guard import NotFiniteError
from dialog.training.module import DialogModule
from dialog.training.trainer import Callback, ready_to_fit

ADVICE = "tuning has no result, run it again"


class BatchTrial(NamedTuple):
    """Speed and peak memory of training with a batch size."""

    batch_tokens: int
    target_tokens_per_second: float
    peak_memory: int


class Workbench(NamedTuple):
    """Recipe without validations, its prepared data and its module."""

    recipe: Recipe
    data: DialogDataModule
    module: DialogModule

    def fit(self, data: DialogDataModule, *callbacks: Callback) -> None:
        """Train in a temporary folder."""
        with tempfile.TemporaryDirectory() as scratch:
            trainer = build_trainer(self.recipe, Path(scratch), [], callbacks)
            with ready_to_fit(trainer, advice=ADVICE):
                trainer.fit(self.module, data)


def workbench(recipe: Recipe, **changes: Any) -> Workbench:
    """Prepare the data of a recipe and build its module.

    Raises:
        UserError: the recipe cannot be trained, or not in one process.
    """
    settings = replace(
        recipe.trainer,
        max_epochs=-1,
        strategy="auto",
        enable_progress_bar=False,
        limit_val_batches=0,
        log_every_n_steps=1,
        **changes,
    )
    checkpoint = replace(recipe.checkpoint, every_n_steps=None, patience=None)
    recipe = for_this_hardware(replace(recipe, trainer=settings, checkpoint=checkpoint))
    if check_recipe(recipe) > 1:
        raise UserError("trainer.devices: tuning runs in one process; set it to 1")
    check_initial_weights(recipe.model)
    prepared = prepare_data(recipe, quiet=False)
    tokenizer = Store(prepared, "train").tokenizer
    module = build_module(recipe, len(tokenizer), tokenizer)
    load_initial_weights(recipe.model, module.model, build_model, tokenizer)
    return Workbench(recipe, build_data(recipe, prepared, tokenizer), module)


# ------------------------------------------------------------------ learning rate


def range_test(recipe: Recipe, *, lowest: float, highest: float, steps: int) -> RangeTest:
    """Record the loss while the learning rate rises with every step; the recipe's schedule is not
    used.
    """
    bench = workbench(recipe, max_steps=steps)
    with ProgressBars() as bars:
        ramp = RateRamp(lowest, highest, steps, bars)
        try:
            bench.fit(bench.data, ramp)
        except NotFiniteError:  # the rate was much too high, which ends the test
            if not ramp.losses:
                raise
    return RangeTest(ramp.rates[: len(ramp.losses)], ramp.losses)


def steepest(test: RangeTest) -> float | None:
    """Return the learning rate at which d loss / d log lr is lowest, before the loss minimum; None
    if it never falls.

    The loss is averaged over neighbours within a twentieth of the steps. The derivative by lr
    itself, as in Lightning's suggestion, is always steepest at the smallest rates.
    """
    radius = max(1, len(test.losses) // 20)
    near = [test.losses[max(0, at - radius) : at + radius + 1] for at in range(len(test.losses))]
    smooth = [sum(losses) / len(losses) for losses in near]
    bottom = min(
        range(len(smooth)), key=lambda at: smooth[at] if math.isfinite(smooth[at]) else math.inf
    )
    logs = [math.log(rate) for rate in test.rates]
    gradients = [
        (smooth[at] - smooth[at - 1]) / (logs[at] - logs[at - 1]) for at in range(1, bottom + 1)
    ]
    if not gradients or min(gradients) >= 0:
        return None
    return test.rates[1 + gradients.index(min(gradients))]


# ------------------------------------------------------------------ batch size


class HeaviestBatches(DialogDataModule):
    """The most expensive batches of a plan; records the size in ``trials`` if they fit in
    memory.
    """

    STEPS = 4

    def __init__(self, data: DialogDataModule, batch_tokens: int, trials: list[BatchTrial]) -> None:
        super().__init__(
            data.folder, batch_tokens=batch_tokens, seed=data.seed, retokenise=data.retokenise
        )
        self.trials = trials

    def train_dataloader(self) -> HeaviestLoader:  # type: ignore[override]  # Lightning takes any iterable
        """Return the loader of these batches only."""
        assert self.trainer is not None
        device = self.trainer.strategy.root_device
        return HeaviestLoader(super().train_dataloader(), device, self.trials)


class HeaviestLoader:
    """The batch with the most target tokens, then three times the one with the most tokens; the
    second is timed.
    """

    def __init__(self, loader: BatchLoader, device: torch.device, trials: list[BatchTrial]) -> None:
        self.loader = loader
        self.device = device
        self.trials = trials

    def __len__(self) -> int:
        return HeaviestBatches.STEPS

    def __iter__(self) -> Iterator[Batch]:
        most_tokens, most_target_tokens, _ = self.loader.heaviest()
        yield most_target_tokens
        yield most_tokens
        start = time.monotonic()
        yield most_tokens
        rate = most_tokens.target_tokens / (time.monotonic() - start)
        self.trials.append(BatchTrial(self.loader.batch_tokens, rate, peak_memory(self.device)))
        yield most_tokens


def sizes_test(recipe: Recipe, *, first: int, most: int) -> Sequence[BatchTrial]:
    """Double ``data.batch_tokens`` from ``first`` up to ``most`` while a step fits in memory;
    return speed and memory of each size.

    A size fits when the most expensive batches of its plan have passed a whole step, the
    optimizer's included.
    """
    bench = workbench(recipe, max_steps=HeaviestBatches.STEPS, accumulate_grad_batches=1)
    classes = Store(bench.data.folder, "train").classes
    split_tokens = int((classes.counts * (classes.sources + classes.targets)).sum())
    trials: list[BatchTrial] = []
    size = first
    with bounded_memory():
        while size <= max(first, min(most, 2 * split_tokens)):
            try:
                bench.fit(HeaviestBatches(bench.data, size, trials))
            except (MemoryError, RuntimeError) as error:
                if not out_of_memory(error):
                    raise
                break
            size *= 2
    return trials


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
