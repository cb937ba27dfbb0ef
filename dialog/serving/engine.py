"""One thread that generates responses and attention maps.

Responses of greedy search and sampling join and leave one batch at any token. Between two tokens of
another search, which generates whole responses, that batch advances too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

from dialog.config.components import Component
from dialog.data.batching import collate
from dialog.data.tokenizers.tokenizer import INCOMPLETE, TextStream
from dialog.errors import UserError
from dialog.generation.chosen_search import argument, has_candidates, has_rows
from dialog.generation.responder import Candidate
from dialog.generation.row_loop import Row, RowLoop, candidate_rows
from dialog.generation.search import best_first
from dialog.generation.searches.rows import RowSearch
from dialog.runs.run import Run
from dialog.serving.replies import RequestError, before_stop, without_stop

log = logging.getLogger("dialog")


@dataclass(frozen=True)
class LoadLimits:
    """Limits of the load of one run.

    Attributes:
        rows: Responses that are generated together, or contexts of a batch.
        waiting: Requests that wait for their turn; a further one is refused.
        seconds: Time that a request waits for its response, or a stream for its first piece.
    """

    rows: int = 32
    waiting: int = 64
    seconds: float = 60.0


DEFAULT_LIMITS = LoadLimits()


class Answer(NamedTuple):
    """Candidates, none where the scores of the model are not numbers, and the number of tokens that
    the model read.
    """

    candidates: list[Candidate]
    source_tokens: int


@dataclass(eq=False)
class Generation:
    """A context that waits for its candidates.

    ``name`` is the id of the draws, see `Responder.respond`. A response ends before the first of
    the ``stops``. ``emit`` receives the pieces of the best candidate's text, see `Engine`; more
    than one where it is the only candidate of a search with rows.
    """

    context: Sequence[str]
    search: Component
    name: str = ""
    stops: Sequence[str] = ()
    emit: Callable[[str], None] | None = None
    future: Future[Answer] = field(default_factory=Future)
    row_count: int = field(init=False)
    """Number of rows in a `RowLoop`; 0 if the search generates whole responses."""

    def __post_init__(self) -> None:
        self.row_count = 0
        if has_rows(self.search):
            several = has_candidates(self.search)
            self.row_count = int(argument(self.search, "candidates")) if several else 1


@dataclass(eq=False)
class Call:
    """A function of the run that waits to be called."""

    function: Callable[[], Any]
    future: Future[Any] = field(default_factory=Future)


Job = Generation | Call


class Piece(NamedTuple):
    """Text that a response has grown by, and its receiver."""

    emit: Callable[[str], None]
    text: str


def emit_all(pieces: Sequence[Piece]) -> None:
    """Pass each piece to its receiver."""
    for emit, text in pieces:
        emit(text)


@dataclass(eq=False)
class RunningReply:
    """A response whose rows are in the loop."""

    job: Generation
    rows: Sequence[Row]
    source_tokens: int
    stream: TextStream | None


class Engine:
    """Runs the jobs of one run; those that cannot share a batch in the order of their arrival.

    A job whose future is cancelled leaves the queue, or the batch before its next token.

    Args:
        run: The trained model.
        limits: Limits of rows and of waiting jobs.
        deliver: Called with the pieces of a step, before the responses that they end are complete;
            by default passes each to its receiver.
    """

    def __init__(
        self,
        run: Run,
        limits: LoadLimits,
        deliver: Callable[[Sequence[Piece]], None] = emit_all,
    ) -> None:
        self.run = run
        self.limits = limits
        self.deliver = deliver
        self.generated = 0
        """Number of tokens of all responses."""
        self._jobs: list[Job] = []
        self._running: list[RunningReply] = []
        self._pieces: list[Piece] = []  # of this step
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._work, name="dialog-engine", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Number of jobs that wait for their turn."""
        return len(self._waiting_jobs())

    @property
    def rows(self) -> int:
        """Number of rows that are generated together."""
        return sum(len(reply.rows) for reply in self._running)

    @property
    def ready(self) -> bool:
        """True if a further job would be taken and run."""
        return self._thread.is_alive() and self.waiting < self.limits.waiting

    def check_room(self) -> None:
        """Raise RequestError if too many jobs wait already."""
        if self.waiting >= self.limits.waiting:
            raise RequestError(
                429, "too many requests wait; try again later", code="rate_limit_exceeded"
            )

    def submit(self, job: Job) -> None:
        """Add a job; its future receives the result.

        Raises:
            RequestError: too many jobs wait already.
        """
        with self._changed:
            self.check_room()
            self._jobs = [*self._waiting_jobs(), job]
            self._changed.notify()

    def _waiting_jobs(self) -> list[Job]:
        return [job for job in self._jobs if not job.future.cancelled()]

    @cached_property
    def _loop(self) -> RowLoop:
        return self.run.responder.row_loop()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._running or self._waiting_jobs())
            if whole := self._next_whole():
                guarded(whole, lambda: self._run_whole(whole))
            self._step_rows()

    def _next_whole(self) -> list[Job]:
        """Take the first job without rows, with those behind it that can share its batch."""
        with self._changed:
            jobs = self._waiting_jobs()
            whole = [job for job in jobs if not self._has_rows(job)]
            batch = [job for job in whole if job is whole[0] or shares_batch(whole[0], job)]
            batch = batch[: self.limits.rows]
            self._jobs = [job for job in jobs if job not in batch]
            return batch

    def _has_rows(self, job: Job) -> bool:
        return isinstance(job, Generation) and 0 < job.row_count <= self.limits.rows

    def _run_whole(self, batch: Sequence[Job]) -> None:
        first = batch[0]
        if isinstance(first, Call):
            complete(first, first.function())
            return
        jobs = [job for job in batch if isinstance(job, Generation)]

        def watch(tokens: Sequence[int]) -> None:
            if all(job.future.cancelled() for job in jobs):
                raise CancelledError
            self._step_rows()

        responder = self.run.responder
        pairs = responder.encode_batch([responder.example(job.context) for job in jobs])
        answers = responder.generate(
            collate(pairs).source, first.search, watch, ids=[job.name for job in jobs]
        )
        for job, (source, _), candidates in zip(jobs, pairs, answers, strict=True):
            if job.emit is not None and candidates:
                self.deliver([Piece(job.emit, before_stop(candidates[0].text, job.stops))])
            self._complete(job, candidates, len(source))

    def _step_rows(self) -> None:
        """Begin the responses that wait and fit, with their first tokens, and add a token to the
        others.
        """
        if fresh := self._next_rows():
            guarded(fresh, lambda: self._begin(fresh))
        if self._running:
            jobs = [reply.job for reply in self._running]
            if not guarded(jobs, self._advance):
                self._running = []
                self._pieces = []
                self._loop.clear()

    def _next_rows(self) -> list[Generation]:
        """Take the jobs with rows that fit beside those that run."""
        with self._changed:
            room = self.limits.rows - self.rows
            taken: list[Generation] = []
            jobs = self._waiting_jobs()
            for job in jobs:
                if isinstance(job, Generation) and self._has_rows(job):
                    room -= job.row_count
                    if room < 0:
                        break
                    taken.append(job)
            if taken:
                self._jobs = [job for job in jobs if job not in taken]
            return taken

    def _begin(self, jobs: Sequence[Generation]) -> None:
        responder = self.run.responder
        pairs = responder.encode_batch([responder.example(job.context) for job in jobs])
        begun = []
        for job, (source, _) in zip(jobs, pairs, strict=True):
            try:
                search = cast("RowSearch", responder.search(job.search))
                rows = candidate_rows(search, source, job.name)
            except UserError as error:
                fail([job], error)
                continue
            stream = None
            if job.emit is not None and len(rows) == 1:
                stream = TextStream(responder.tokenizer, partial(self._keep, job.emit))
            begun.append(RunningReply(job, rows, len(source), stream))
        if begun:
            self._loop.begin([row for reply in begun for row in reply.rows])
            self._running = [*self._running, *begun]
            self._pass_on(begun)

    def _advance(self) -> None:
        """Add a token to all that do not wait to join."""
        self._loop.advance()
        self._pass_on(self._running)

    def _pass_on(self, replies: Sequence[RunningReply]) -> None:
        """Pass on new text and complete responses, which leave. Those that nobody waits for end."""
        ended: list[tuple[RunningReply, list[Candidate]]] = []
        tokenizer = self.run.tokenizer
        for reply in replies:
            job = reply.job
            if job.future.cancelled():
                for row in reply.rows:
                    row.ended = True
                continue
            for row in reply.rows:
                if row.ended or not (job.stops or reply.stream):
                    continue
                text = tokenizer.decode(row.response).rstrip(INCOMPLETE)
                row.ended = before_stop(text, job.stops) != text
                if reply.stream is not None:
                    reply.stream.advance(without_stop(text, job.stops))
            if all(row.ended for row in reply.rows):
                ended.append((reply, self._candidates(reply)))
        if self._pieces:
            self.deliver(self._pieces)
        self._pieces = []
        for reply, candidates in ended:
            self._complete(reply.job, candidates, reply.source_tokens)
        self._running = [
            reply for reply in self._running if not all(row.ended for row in reply.rows)
        ]

    def _keep(self, emit: Callable[[str], None], text: str) -> None:
        self._pieces.append(Piece(emit, text))

    def _candidates(self, reply: RunningReply) -> list[Candidate]:
        """Return the candidates of a response that has ended; its last piece is kept."""
        job = reply.job
        hypotheses = [row.hypothesis() for row in reply.rows]
        ranked = best_first(hypothesis for hypothesis in hypotheses if hypothesis is not None)
        candidates = [self.run.responder.candidate(hypothesis) for hypothesis in ranked]
        if job.emit is not None and candidates:
            text = before_stop(candidates[0].text, job.stops)
            if reply.stream is None:
                self._keep(job.emit, text)
            else:
                reply.stream.advance(text)
        return candidates

    def _complete(self, job: Generation, candidates: list[Candidate], source_tokens: int) -> None:
        self.generated += sum(candidate.tokens for candidate in candidates)
        complete(job, Answer(candidates, source_tokens))


def guarded(jobs: Sequence[Job], work: Callable[[], None]) -> bool:
    """Work, and return True; after an error, fail the jobs and return False, so that the service
    continues.
    """
    try:
        work()
    except (CancelledError, RequestError, UserError) as error:
        fail(jobs, error)
    except BaseException as error:
        log.exception("a request failed")
        fail(jobs, RuntimeError(type(error).__name__))
    else:
        return True
    return False


def complete(job: Job, result: Any) -> None:
    """Set the result of a job unless it is cancelled."""
    with suppress(InvalidStateError):
        job.future.set_result(result)


def fail(jobs: Sequence[Job], error: Exception) -> None:
    """Set the error of the jobs that have no result."""
    for job in jobs:
        with suppress(InvalidStateError):
            job.future.set_exception(error)


def shares_batch(first: Job, other: Job) -> bool:
    """Return True if both are contexts for the same search."""
    return (
        isinstance(first, Generation)
        and isinstance(other, Generation)
        and first.search == other.search
    )
