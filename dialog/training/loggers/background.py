"""Call an experiment tracker from a thread of its own, so that it neither delays nor ends
training.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol, runtime_checkable

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only
from PIL.Image import Image

from dialog.escaping import one_line

log = logging.getLogger("dialog")


TableRows = Sequence[Sequence[str | int | float]]


@runtime_checkable
class MediaLogger(Protocol):
    """A logger that also takes images and tables."""

    def log_images(self, images: Mapping[str, Image], step: int) -> None:
        """Log images by key."""

    def log_table(self, key: str, columns: list[str], data: TableRows, step: int) -> None:
        """Log rows of values."""


@runtime_checkable
class PageLogger(MediaLogger, Protocol):
    """A logger that takes HTML pages too."""

    def log_page(self, key: str, page: str, step: int) -> None:
        """Log a self-contained page."""


class BackgroundLogger(Logger):
    """Passes the calls of a Trainer to another logger, which runs in a thread of the first rank.

    The first exception drops the tracker, with one warning. Calls are dropped, with one warning,
    while `capacity` calls wait, and when the tracker has not caught up within `patience` seconds at
    the end of the run.
    """

    def __init__(self, tracker: Logger, *, capacity: int = 10_000, patience: float = 60.0) -> None:
        super().__init__()
        self.tracker = tracker
        self.patience = patience
        self._calls: queue.Queue[tuple[Callable[..., object], tuple[Any, ...]] | None] = (
            queue.Queue(capacity)
        )
        self._thread: threading.Thread | None = None
        self._failed = False
        self._full = False

    @property
    def name(self) -> str:
        """Name of the tracker's class, without its last word."""
        return type(self.tracker).__name__.removesuffix("Logger").removesuffix("Tracker")

    @property
    def version(self) -> str:
        """Empty: a run has one tracker."""
        return ""

    @rank_zero_only
    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *args: object, **kwargs: object
    ) -> None:
        """Log the recipe."""
        self.submit(self.tracker.log_hyperparams, params)

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log numbers; steps are counted from 1, as in metrics.jsonl, where Lightning counts from
        0.
        """
        self.submit(self.tracker.log_metrics, dict(metrics), None if step is None else step + 1)

    @rank_zero_only
    def save(self) -> None:
        """Flush the tracker, if it has something to write."""
        if self._thread is not None:
            self.submit(self.tracker.save)

    @rank_zero_only
    def submit(self, call: Callable[..., object], *arguments: Any) -> None:
        """Call a function in the tracker's thread; return at once."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
            self._thread.start()
        if self._failed:
            return
        try:
            self._calls.put_nowait((call, arguments))
        except queue.Full:
            if not self._full:
                log.warning(
                    "%s is slower than training; metrics.jsonl is complete, the tracker is not",
                    self.name,
                )
            self._full = True

    @rank_zero_only
    def close(self) -> None:
        """Wait until the tracker has caught up, at most `patience` seconds."""
        if self._thread is None:
            return
        deadline = time.monotonic() + self.patience
        if not self._failed:
            with suppress(queue.Full):
                self._calls.put(None, timeout=self.patience)
            self._thread.join(max(0.0, deadline - time.monotonic()))
            if self._thread.is_alive():
                self._drop(f"has not caught up within {self.patience:g} s")
        self._thread = None

    def _run(self) -> None:
        try:
            while not self._failed and (waiting := self._calls.get()) is not None:
                call, arguments = waiting
                call(*arguments)
            self.tracker.finalize("success")
        except BaseException as error:
            if not self._failed:
                self._drop(f"failed ({type(error).__name__}: {one_line(str(error))})")
            with suppress(BaseException):
                self.tracker.finalize("failed")

    def _drop(self, reason: str) -> None:
        self._failed = True
        advice = getattr(self.tracker, "advice", "")
        log.warning(
            "%s %s; continuing without it, metrics.jsonl is complete%s", self.name, reason, advice
        )
