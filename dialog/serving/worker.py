"""One thread that generates responses and attention maps; contexts that wait for the same search share a batch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from dialog.config.components import Component
from dialog.data.tokenizers.text_stream import TextStream
from dialog.errors import UserError
from dialog.generation.responder import Candidate
from dialog.runs.run import Run

log = logging.getLogger("dialog")
MOST_WAITING, MOST_ROWS = 64, 32
"""Waiting jobs, and contexts of a batch."""


class OverloadedError(Exception):
    """Too many requests wait."""


class AbandonedError(Exception):
    """The client has gone."""


class NotNumbersError(Exception):
    """The scores of the model are not numbers."""


@dataclass(eq=False)
class Generation:
    """A context that waits for its candidates.

    ``name`` is the id of the draws, see `Responder.respond`. ``emit`` receives the pieces of a streamed response.
    """

    context: Sequence[str]
    search: Component
    name: str = ""
    emit: Callable[[str], None] | None = None
    future: Future[list[Candidate]] = field(default_factory=Future)
    abandoned: threading.Event = field(default_factory=threading.Event)


@dataclass(eq=False)
class Call:
    """A function of the run that waits to be called."""

    function: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)
    abandoned: threading.Event = field(default_factory=threading.Event)


class Worker:
    """Runs jobs one batch at a time, in the order of their arrival.

    Args:
        run: The trained model.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._jobs: list[Generation | Call] = []
        self._changed = threading.Condition()
        threading.Thread(target=self._work, name="dialog-worker", daemon=True).start()

    @property
    def waiting(self) -> int:
        """Number of jobs that wait for their turn."""
        return len(self._jobs)

    def submit(self, job: Generation | Call) -> None:
        """Add a job; its future receives the result.

        Raises:
            OverloadedError: `MOST_WAITING` jobs wait already.
        """
        with self._changed:
            self._jobs = [waiting for waiting in self._jobs if not waiting.abandoned.is_set()]
            if len(self._jobs) >= MOST_WAITING:
                raise OverloadedError
            self._jobs.append(job)
            self._changed.notify()

    def _work(self) -> None:
        while True:
            batch = self._next_batch()
            running = [job for job in batch if not job.abandoned.is_set() and job.future.set_running_or_notify_cancel()]
            try:
                self._run(running)
            except (AbandonedError, NotNumbersError, UserError) as error:
                self._fail(running, error)
            except BaseException as error:  # the service continues
                log.exception("a request failed")
                self._fail(running, RuntimeError(type(error).__name__))

    def _next_batch(self) -> list[Generation | Call]:
        """Return the next job, with those behind it that can share its batch."""
        with self._changed:
            self._changed.wait_for(lambda: self._jobs)
            first, *others = self._jobs
            batch = [first, *(job for job in others if shares_batch(first, job))][:MOST_ROWS]
            self._jobs = [job for job in self._jobs if job not in batch]
            return batch

    def _run(self, jobs: Sequence[Generation | Call]) -> None:
        generations = [job for job in jobs if isinstance(job, Generation)]
        for job in jobs:
            if isinstance(job, Call):
                job.future.set_result(job.function())
        if generations:
            self._generate(generations)

    def _generate(self, jobs: Sequence[Generation]) -> None:
        first = jobs[0]
        stream = None if first.emit is None else TextStream(self.run.tokenizer, first.emit)

        def watch(tokens: Sequence[int]) -> None:
            if first.abandoned.is_set():
                raise AbandonedError
            if stream is not None:
                stream(tokens)

        contexts, names = [job.context for job in jobs], [job.name for job in jobs]
        watching = watch if len(jobs) == 1 else None
        answers = self.run.responder.respond(contexts, first.search, watching, ids=names)
        for job, candidates in zip(jobs, answers, strict=True):
            if not candidates:
                job.future.set_exception(NotNumbersError())
                continue
            if stream is not None:
                stream.advance(candidates[0].text)
            job.future.set_result(candidates)

    def _fail(self, jobs: Sequence[Generation | Call], error: Exception) -> None:
        for job in jobs:
            if not job.future.done():
                job.future.set_exception(error)


def shares_batch(first: Generation | Call, other: Generation | Call) -> bool:
    """Return True if both are contexts for the same search and neither is streamed."""
    if not isinstance(first, Generation) or not isinstance(other, Generation):
        return False
    return first.emit is other.emit is None and first.search == other.search
