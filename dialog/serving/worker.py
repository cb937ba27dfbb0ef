"""One thread that generates responses and attention maps; contexts that wait for the same search
share a batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dialog.config.components import Component
from dialog.data.batching import collate
from dialog.data.tokenizers.tokenizer import TextStream
from dialog.errors import UserError
from dialog.generation.responder import Candidate
from dialog.runs.run import Run
from dialog.serving.replies import RequestError

log = logging.getLogger("dialog")
MOST_WAITING = 64
MOST_ROWS = 32
"""Waiting jobs, and contexts of a batch."""


class Answer(NamedTuple):
    """Candidates, none where the scores of the model are not numbers, and the number of tokens that
    the model read.
    """

    candidates: list[Candidate]
    source_tokens: int


@dataclass(eq=False)
class Generation:
    """A context that waits for its candidates.

    ``name`` is the id of the draws, see `Responder.respond`. ``emit`` receives the pieces of a
    streamed response.
    """

    context: Sequence[str]
    search: Component
    name: str = ""
    emit: Callable[[str], None] | None = None
    future: Future[Answer] = field(default_factory=Future)


@dataclass(eq=False)
class Call:
    """A function of the run that waits to be called."""

    function: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)


class Worker:
    """Runs jobs one batch at a time, in the order of their arrival.

    A job whose future is cancelled leaves the queue; a generation also ends before its next token,
    unless others in its batch continue.

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
        return len(self._waiting_jobs())

    def check_room(self) -> None:
        """Raise RequestError if `MOST_WAITING` jobs wait already."""
        if self.waiting >= MOST_WAITING:
            raise RequestError(
                429, "too many requests wait; try again later", code="rate_limit_exceeded"
            )

    def submit(self, job: Generation | Call) -> None:
        """Add a job; its future receives the result.

        Raises:
            RequestError: `MOST_WAITING` jobs wait already.
        """
        with self._changed:
            self.check_room()
            self._jobs = [*self._waiting_jobs(), job]
            self._changed.notify()

    def _waiting_jobs(self) -> list[Generation | Call]:
        return [job for job in self._jobs if not job.future.cancelled()]

    def _work(self) -> None:
        while True:
            batch = self._next_batch()
            try:
                self._run(batch)
            except (CancelledError, RequestError, UserError) as error:
                fail(batch, error)
            except BaseException as error:  # the service continues
                log.exception("a request failed")
                fail(batch, RuntimeError(type(error).__name__))

    def _next_batch(self) -> Sequence[Generation | Call]:
        """Return the next job, with those behind it that can share its batch."""
        with self._changed:
            first, *others = self._changed.wait_for(self._waiting_jobs)
            batch = [first, *(job for job in others if shares_batch(first, job))][:MOST_ROWS]
            self._jobs = [job for job in others if job not in batch]
            return batch

    def _run(self, batch: Sequence[Generation | Call]) -> None:
        first = batch[0]
        if isinstance(first, Call):
            complete(first, first.function())
        else:
            self._generate(first, [job for job in batch if isinstance(job, Generation)])

    def _generate(self, first: Generation, batch: Sequence[Generation]) -> None:
        stream = None if first.emit is None else TextStream(self.run.tokenizer, first.emit)

        def watch(tokens: Sequence[int]) -> None:
            if all(job.future.cancelled() for job in batch):
                raise CancelledError
            if stream is not None:
                stream(tokens)

        responder = self.run.responder
        pairs = responder.encode_batch([responder.example(job.context) for job in batch])
        answers = responder.generate(
            collate(pairs).source, first.search, watch, ids=[job.name for job in batch]
        )
        for job, (source, _), candidates in zip(batch, pairs, answers, strict=True):
            if stream is not None and candidates:
                stream.advance(candidates[0].text)
            complete(job, Answer(candidates, len(source)))


def complete(job: Generation | Call, result: Any) -> None:
    """Set the result of a job unless it is cancelled."""
    with suppress(InvalidStateError):
        job.future.set_result(result)


def fail(batch: Sequence[Generation | Call], error: Exception) -> None:
    """Set the error of the jobs that have no result."""
    for job in batch:
        with suppress(InvalidStateError):
            job.future.set_exception(error)


def shares_batch(first: Generation | Call, other: Generation | Call) -> bool:
    """Return True if both are contexts for the same search and neither is streamed."""
    if not isinstance(first, Generation) or not isinstance(other, Generation):
        return False
    return first.emit is other.emit is None and first.search == other.search
