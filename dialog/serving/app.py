"""Routes of the service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from datetime import UTC, datetime
from functools import cached_property
from secrets import token_hex
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from dialog.errors import UserError
from dialog.generation.chosen_search import draws
from dialog.generation.responder import Candidate
from dialog.report.drawing.attention.page import attention_page, page_sources
from dialog.report.page import chat_sources, joined, render_page
from dialog.runs.facts import labelled_facts, labelled_results, run_facts
from dialog.runs.facts import openings as openings_of
from dialog.runs.run import Run, run_names
from dialog.serving.engine import (
    DEFAULT_LIMITS,
    Answer,
    Call,
    Engine,
    Generation,
    Job,
    LoadLimits,
    Piece,
    emit_all,
)
from dialog.serving.gatekeeper import HEALTH, PROBES, READY, AnsweredRequest, Gatekeeper, read_body
from dialog.serving.metrics import CONTENT_TYPE, Metrics
from dialog.serving.openapi import openapi
from dialog.serving.replies import (
    END_OF_STREAM,
    Completion,
    Health,
    Identity,
    ModelEntry,
    ModelList,
    Ready,
    RequestError,
    Saved,
    ServedRunEntry,
    ServedRunList,
    TextEvents,
    before_stop,
    choice,
    chunk,
    event,
    finish_reason,
    json_response,
    token_logprobs,
    usage,
    usage_chunk,
)
from dialog.serving.requests import (
    AttentionRequest,
    ChatRequest,
    VoteRequest,
    first_error,
    selected_search,
)
from dialog.serving.streams import EventStream, GrowingText
from dialog.serving.votes import VoteFile

PACKAGE = "dialog.serving"
SCRIPTS = [f"page/{name}.js" for name in ("service", "chats", "replies", "studio", "start")]
VOTE_FORMAT = 1
MOST_RESPONSE_TOKENS = 256
"""Tokens of a response whose attention maps are computed."""

Body = TypeVar("Body", bound=BaseModel)
Result = TypeVar("Result")


class ServedRun:
    """A run of the service: its name there, its engine, and first turns of its corpus."""

    def __init__(self, name: str, run: Run, engine: Engine, openings: Sequence[str]) -> None:
        self.name = name
        self.run = run
        self.engine = engine
        facts = labelled_facts(run_facts(run)), labelled_results(run)
        self._entry = facts, [*openings]

    def entry(self) -> ServedRunEntry:
        """Return what the web page shows."""
        (facts, results), openings = self._entry
        return {
            "name": self.name,
            "facts": facts,
            "results": results,
            "search": self.run.recipe.generation.search["name"],
            "openings": openings,
            "removed": not self.run.folder.is_dir(),
        }

    @cached_property
    def pieces(self) -> list[bytes]:
        """The bytes of each token."""
        return self.run.tokenizer.pieces()


class Service:
    """The routes of some runs.

    Args:
        runs: The trained models; requests without a name are for the first one.
        token: Key that requests need, see `Gatekeeper`; "" for none.
        hosts: Accepted names of this host, see `Gatekeeper`.
        limits: Limits of each run.
        votes: File that keeps votes; None to keep none.
        openings: Number of first turns of each run's validation split that the page offers.
        log: Called after each request, whose `endpoint` is then its route.
    """

    def __init__(
        self,
        *runs: Run,
        token: str = "",
        hosts: Sequence[str] = (),
        limits: LoadLimits = DEFAULT_LIMITS,
        votes: VoteFile | None = None,
        openings: int = 0,
        log: Callable[[AnsweredRequest], None] | None = None,
    ) -> None:
        names = run_names(runs)
        self.served = {
            name: ServedRun(
                name,
                run,
                Engine(run, limits, self._deliver),
                openings_of(run, openings) if openings else (),
            )
            for name, run in zip(names, runs, strict=True)
        }
        self._loop: asyncio.AbstractEventLoop | None = None  # of streams
        self._watches: set[asyncio.Task[None]] = set()
        self.first = self.served[names[0]]
        self.limits = limits
        self.log = log
        self.metrics = Metrics()
        self.started = int(time.time())
        self.votes = votes
        self.page = studio_page(needs_key=bool(token))
        self.description = openapi(", ".join(names))
        routes = [
            Route("/", self.show_page),
            Route(HEALTH, self.health),
            Route(READY, self.ready),
            Route("/metrics", self.measure),
            Route("/openapi.json", self.describe),
            Route("/runs", self.runs),
            Route("/votes", self.vote, methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/v1/chat/completions", self.complete, methods=["POST"]),
            Route("/attention", self.attention, methods=["POST"]),
        ]
        self.paths = {route.endpoint.__name__: route.path_format for route in routes}
        self.starlette = Starlette(routes=routes, exception_handlers=ERROR_RESPONSES)
        self.app = Gatekeeper(
            self.starlette,
            token=token,
            hosts=hosts,
            public=("/", *PROBES),
            answered=self._answered,
        )

    async def show_page(self, request: Request) -> Response:
        """Return the web page."""
        return HTMLResponse(self.page)

    async def health(self, request: Request) -> Response:
        """Return the state of the service."""
        waiting = sum(model.engine.waiting for model in self.served.values())
        state: Health = {"status": "ok", "model": self.first.name, "waiting": waiting}
        return json_response(state)

    async def ready(self, request: Request) -> Response:
        """Return status 200 if all models take requests, else 503."""
        state: Ready = {"ready": all(model.engine.ready for model in self.served.values())}
        return json_response(state, 200 if state["ready"] else 503)

    async def measure(self, request: Request) -> Response:
        """Return figures in Prometheus' text format."""
        engines = [(name, model.engine) for name, model in self.served.items()]
        gauges = {
            "generated_tokens_total": [(name, engine.generated) for name, engine in engines],
            "rows": [(name, engine.rows) for name, engine in engines],
            "waiting": [(name, engine.waiting) for name, engine in engines],
        }
        return Response(self.metrics.text(gauges), headers={"Content-Type": CONTENT_TYPE})

    async def describe(self, request: Request) -> Response:
        """Return the routes and their fields in the format of OpenAPI."""
        return json_response(self.description)

    async def runs(self, request: Request) -> Response:
        """Return facts about the runs for the web page."""
        entries = [model.entry() for model in self.served.values()]
        listed: ServedRunList = {"runs": entries, "votes": self.votes is not None}
        return json_response(listed)

    async def vote(self, request: Request) -> Response:
        """Keep a vote on two responses."""
        vote = await parsed(request, VoteRequest)
        models = [self._model(name) for name in vote.models]
        if self.votes is None:
            raise RequestError(409, "votes are not kept; start serve with --votes FILE")
        searches = [
            selected_search(model.run.recipe.generation, settings)
            for model, settings in zip(models, vote.settings or (), strict=False)
        ]
        line = {
            "format": VOTE_FORMAT,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            "rater": vote.rater,
            "chat": vote.chat,
            "models": vote.models,
            "weights": [model.run.weights for model in models],
            "searches": searches or None,
            "context": vote.context,
            "responses": vote.responses,
            "choice": vote.choice,
        }
        await asyncio.to_thread(self.votes.append, line)
        saved: Saved = {"saved": True}
        return json_response(saved)

    async def models(self, request: Request) -> Response:
        """Return all models."""
        listed: ModelList = {"object": "list", "data": [*map(self._entry, self.served)]}
        return json_response(listed)

    async def model(self, request: Request) -> Response:
        """Return the model of a name."""
        return json_response(self._entry(self._model(request.path_params["name"]).name))

    async def complete(self, request: Request) -> Response:
        """Answer the last message of a chat."""
        self._check_room()
        chat = await parsed(request, ChatRequest)
        model = self._model(chat.model)
        search = selected_search(model.run.recipe.generation, chat)
        seed = "" if not draws(search) else token_hex(8) if chat.seed is None else str(chat.seed)
        identity: Identity = {
            "id": f"chatcmpl-{token_hex(12)}",
            "created": int(time.time()),
            "model": model.name,
        }
        if chat.warnings:
            identity["warnings"] = chat.warnings
        job = Generation(chat.context, search, seed, chat.stop or ())
        if chat.stream:
            return await self._stream(request, model, job, chat, identity)
        answer: Answer = await self._awaited(request, model, job, asyncio.wrap_future(job.future))
        return json_response(completion(model, answer, chat, identity))

    async def attention(self, request: Request) -> Response:
        """Return the attention maps of a response, as `dialog attention` writes them."""
        self._check_room()
        body = await parsed(request, AttentionRequest)
        model = self._model(body.model)
        job = Call(lambda: attention(model.run, body))
        content: str = await self._awaited(request, model, job, asyncio.wrap_future(job.future))
        return Response(
            content, media_type="application/json" if body.format == "json" else "text/html"
        )

    def _deliver(self, pieces: Sequence[Piece]) -> None:
        """Pass the pieces of an engine's step to the event loop, all at once: it would run between
        two of them otherwise, and delay the engine.
        """
        if self._loop is not None:
            self._loop.call_soon_threadsafe(emit_all, pieces)

    def _answered(self, request: AnsweredRequest) -> None:
        route = self.paths.get(request.endpoint, "other")
        self.metrics.count(route, request.status, request.seconds)
        if self.log is not None:
            self.log(request._replace(endpoint=route))

    def _entry(self, name: str) -> ModelEntry:
        """Return a model in OpenAI's format."""
        return {"id": name, "object": "model", "created": self.started, "owned_by": "dialog"}

    def _model(self, name: str | None) -> ServedRun:
        """Return the model of a name, or the first one.

        Raises:
            RequestError: no model has the name.
        """
        if name is None:
            return self.first
        if name not in self.served:
            known = ", ".join(map(repr, self.served))
            message = f"unknown model {name!r}; this service has {known}"
            raise RequestError(404, message, field="model", code="model_not_found")
        return self.served[name]

    def _check_room(self) -> None:
        """Raise RequestError if no model takes a request."""
        engines = [model.engine for model in self.served.values()]
        min(engines, key=lambda engine: engine.waiting).check_room()

    async def _awaited(
        self, request: Request, model: ServedRun, job: Job, result: Awaitable[Result]
    ) -> Result:
        """Run a job on the engine; return what is awaited.

        The job is cancelled if the client leaves before its response is complete.

        Raises:
            RequestError: no result in time, or the end of the service.
        """
        model.engine.submit(job)
        watch = asyncio.create_task(cancel_when_left(request, job))
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await result
        except BaseException as error:
            job.future.cancel()
            if isinstance(error, TimeoutError):
                raise RequestError(
                    503, f"no response within {self.limits.seconds:g} s; try again later"
                ) from error
            if isinstance(error, asyncio.CancelledError):
                raise RequestError(503, "the service ends") from error
            raise

    async def _stream(
        self,
        request: Request,
        model: ServedRun,
        job: Generation,
        chat: ChatRequest,
        identity: Identity,
    ) -> Response:
        """Return a stream of events; an error before the first piece is an ordinary response."""
        loop = self._loop = asyncio.get_running_loop()
        text = GrowingText()
        begin = time.perf_counter()
        job.emit = text.add
        job.future.add_done_callback(lambda _: loop.call_soon_threadsafe(text.end))
        first = await self._awaited(request, model, job, text.read())
        self.metrics.first_text.add(time.perf_counter() - begin)
        if not first:
            generated(job.future.result().candidates)  # raises an error

        text_event = TextEvents(identity)

        async def events() -> AsyncIterator[str]:
            try:
                opening = event(chunk(identity, {"role": "assistant", "content": ""}))
                piece = first
                while piece:
                    yield opening + text_event(piece)
                    opening = ""
                    piece = await text.read()
            finally:  # the client may have gone
                job.future.cancel()
            try:
                answer = job.future.result()
                candidates = generated(answer.candidates)[: chat.n or 1]
            except Exception as error:
                yield event(request_error(error).content)
                return
            last = opening
            for index, candidate in enumerate(candidates):
                if index:
                    content = before_stop(candidate.text, job.stops)
                    last += event(chunk(identity, {"content": content}, index=index))
                logprobs = token_logprobs(candidate, model.pieces) if chat.logprobs else None
                finish = finish_reason(candidate, job.stops)
                last += event(chunk(identity, {}, index=index, finish=finish, logprobs=logprobs))
            if chat.stream_options is not None and chat.stream_options.include_usage:
                last += event(usage_chunk(identity, candidates, answer.source_tokens))
            yield last + END_OF_STREAM

        return EventStream(events())


def attention(run: Run, body: AttentionRequest) -> str:
    """Return the maps of a response as JSON or a page; called by the engine, since the work holds
    Python's lock.
    """
    if body.response is None:
        response: str | Candidate = generated(run.responder.respond([body.context])[0])[0]
    else:
        (tokens,) = run.tokenizer.encode_batch([body.response])
        if len(tokens) > MOST_RESPONSE_TOKENS:
            raise RequestError(
                400, f"response: give at most {MOST_RESPONSE_TOKENS} tokens", field="response"
            )
        response = body.response
    reading = run.attention(body.context, response)
    if body.format == "json":
        return "".join(reading.json_pieces())
    if not reading["maps"]:
        raise RequestError(409, f"{run.name} has no attention; there is nothing to draw")
    return attention_page([("", reading)], title="", folds_dialogue=True)


def completion(
    model: ServedRun, answer: Answer, chat: ChatRequest, identity: Identity
) -> Completion:
    """Return an answer in OpenAI's format."""
    candidates = generated(answer.candidates)[: chat.n or 1]
    choices = [
        choice(
            number,
            candidate,
            chat.stop or (),
            token_logprobs(candidate, model.pieces) if chat.logprobs else None,
        )
        for number, candidate in enumerate(candidates)
    ]
    return {
        **identity,
        "object": "chat.completion",
        "choices": choices,
        "usage": usage(candidates, answer.source_tokens),
    }


def studio_page(*, needs_key: bool) -> str:
    """Return the web page; it shows all texts of a chat as text, never as HTML.

    The page of all attention maps is in a sandboxed frame without an origin.
    """
    script, style = chat_sources()
    return render_page(
        PACKAGE,
        "page/page.html.j2",
        {"needs_key": needs_key},
        script=script + joined(PACKAGE, SCRIPTS),
        style=style + joined(PACKAGE, ["page/page.css"]),
        framed=[page_sources()],
        connects=True,
    )


async def cancel_when_left(request: Request, job: Job) -> None:
    """Cancel a job when the client of a request, whose body has been read, closes the connection;
    return then, or when the response is complete.
    """
    while (await request.receive())["type"] != "http.disconnect":
        pass
    job.future.cancel()


def generated(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return the candidates of a context.

    Raises:
        RequestError: none, because the scores of the model are not numbers.
    """
    if not candidates:
        raise RequestError(500, "the scores of the model are not numbers")
    return candidates


async def parsed(request: Request, kind: type[Body]) -> Body:
    """Return the body of a request.

    Raises:
        RequestError: not JSON, or an unknown, missing or invalid field.
    """
    try:
        return kind.model_validate_json(await read_body(request), strict=True)
    except ValidationError as error:
        raise first_error(error, kind) from error


def request_error(error: BaseException) -> RequestError:
    """Return the error that a client receives; it contains nothing of an internal failure."""
    match error:
        case RequestError():
            return error
        case UserError():
            return RequestError(400, str(error))
        case HTTPException():
            return RequestError(error.status_code, error.detail)
        case ClientDisconnect() | CancelledError():
            return RequestError(400, "the client has gone")
    return RequestError(500, "internal failure")


async def error_response(request: Request, error: Exception) -> Response:
    """Return an error as a response."""
    response = request_error(error).response()
    if isinstance(error, HTTPException):
        response.headers.update(error.headers or {})
    return response


Handler = Callable[[Request, Exception], Coroutine[Any, Any, Response]]
ERROR_RESPONSES: Mapping[Any, Handler] = dict.fromkeys(
    (RequestError, UserError, HTTPException, ClientDisconnect, CancelledError, Exception),
    error_response,
)
