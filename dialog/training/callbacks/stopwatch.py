"""Time of each optimizer step, and its share of data loading."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.profilers import Profiler
from torch.cuda import Event

from dialog.data.batching import Batch


class BatchShape(NamedTuple):
    """Rows, real tokens, and positions with padding of a batch."""

    rows: int
    source_tokens: int
    target_tokens: int
    positions: int


@dataclass(frozen=True)
class TimedStep:
    """Optimizer step, from the end of the previous one: loading, forward, backward, update and
    logging.
    """

    seconds: float
    loading: float
    batches: tuple[BatchShape, ...]

    @property
    def source_tokens(self) -> int:
        """Real source tokens."""
        return sum(batch.source_tokens for batch in self.batches)

    @property
    def target_tokens(self) -> int:
        """Real target tokens."""
        return sum(batch.target_tokens for batch in self.batches)


class Stopwatch(Callback):
    """Measures every optimizer step, on a GPU with its own events, which do not block."""

    def __init__(self) -> None:
        self.loading = Loading()
        self.first = 0.0
        """End of the first step, by `time.perf_counter`."""
        self._marks: list[Event | float] = []
        self._loaded = [0.0]
        self._batches: list[tuple[BatchShape, ...]] = [()]

    def setup(self, trainer: Trainer, module: LightningModule, stage: str) -> None:
        """Install a profiler that measures the wait for batches."""
        trainer.profiler = self.loading  # type: ignore[attr-defined]  # a connector sets it without a declaration

    def on_train_start(self, trainer: Trainer, module: LightningModule) -> None:
        """Start the clock."""
        self._marks.append(_now(module.device))

    def on_train_batch_end(
        self,
        trainer: Trainer,
        module: LightningModule,
        outputs: object,
        batch: Batch,
        batch_index: int,
    ) -> None:
        """Add a batch; the last one of a step ends it."""
        self._batches[-1] += (_shape(batch),)
        if trainer.global_step < len(self._batches):
            return
        self._marks.append(_now(module.device))
        self._loaded.append(self.loading.seconds)
        self._batches.append(())
        if not self.first:
            _wait(module.device)
            self.first = time.perf_counter()

    def steps(self) -> list[TimedStep]:
        """Return every completed step."""
        spans = [_between(*pair) for pair in zip(self._marks, self._marks[1:], strict=False)]
        loaded = [end - start for start, end in zip(self._loaded, self._loaded[1:], strict=False)]
        return [
            TimedStep(*values) for values in zip(spans, loaded, self._batches[:-1], strict=True)
        ]


class Loading(Profiler):
    """Sums the seconds in which a trainer waits for its next batch."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self._since = 0.0

    def start(self, action_name: str) -> None:
        """Start the clock, if the action is loading."""
        if action_name.endswith("train_dataloader_next"):
            self._since = time.perf_counter()

    def stop(self, action_name: str) -> None:
        """Add the time since then."""
        if action_name.endswith("train_dataloader_next"):
            self.seconds += time.perf_counter() - self._since


def _shape(batch: Batch) -> BatchShape:
    positions = batch.source.numel() + batch.target[:, 1:].numel()
    return BatchShape(len(batch.source), batch.source_tokens, batch.target_tokens, positions)


def _now(device: torch.device) -> Event | float:
    if device.type != "cuda":
        return time.perf_counter()
    event = Event(enable_timing=True)  # type: ignore[no-untyped-call]  # torch's own is untyped
    event.record()
    return event


def _between(start: Event | float, end: Event | float) -> float:
    """Seconds."""
    if isinstance(start, Event) and isinstance(end, Event):
        end.synchronize()
        return float(start.elapsed_time(end)) / 1000
    assert isinstance(start, float)
    assert isinstance(end, float)
    return end - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
