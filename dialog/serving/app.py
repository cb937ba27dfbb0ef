"""Routes of the service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from secrets import token_hex
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from dialog.errors import UserError
from dialog.escaping import printable
from dialog.generation.chosen_search import draws
from dialog.generation.responder import Candidate
from dialog.report.drawing.attention.page import attention_page, page_sources
from dialog.report.page import joined, render_page
from dialog.runs.run import Run
from dialog.serving.gatekeeper import HEALTH, Gatekeeper, read_body
from dialog.serving.openapi import openapi
from dialog.serving.replies import (
    END_OF_STREAM,
    Health,
    Identity,
    ModelEntry,
    ModelList,
    RequestError,
    chunk,
    completion,
    event,
    finish_reason,
    json_response,
    usage_chunk,
)
from dialog.serving.requests import AttentionRequest, ChatRequest, first_error, selected_search
from dialog.serving.worker import Answer, Call, Generation, Worker

PACKAGE = "dialog.serving"
DEADLINE = 60.0
"""Seconds that a request waits for its response, or a stream for its first piece."""
MOST_RESPONSE_TOKENS = 256
"""Tokens of a response whose attention maps are computed."""

Body = TypeVar("Body", bound=BaseModel)
Result = TypeVar("Result")


class Service:
    """The routes of one run.

    Args:
        run: The trained model.
        token: Key that requests need, see `Gatekeeper`; "" for none.
        hosts: Accepted names of this host, see `Gatekeeper`.
    """

    def __init__(self, run: Run, *, token: str = "", hosts: Sequence[str] = ()) -> None:
        self.run = run
        self.worker = Worker(run)
        self.started = int(time.time())
        self.page = chat_page(run.name, needs_key=bool(token))
        self.description = openapi(run.name, run.recipe.generation)
        routes = [
            Route("/", self.show_page),
            Route(HEALTH, self.health),
            Route("/openapi.json", self.describe),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/v1/chat/completions", self.complete, methods=["POST"]),
            Route("/attention", self.attention, methods=["POST"]),
        ]
        self.starlette = Starlette(routes=routes, exception_handlers=ERROR_RESPONSES)
        self.app = Gatekeeper(self.starlette, token=token, hosts=hosts, public=("/", HEALTH))

    async def show_page(self, request: Request) -> Response:
        """Return the web page."""
        return HTMLResponse(self.page)

    async def health(self, request: Request) -> Response:
        """Return the state of the service."""
        state: Health = {"status": "ok", "model": self.run.name, "waiting": self.worker.waiting}
        return json_response(state)

    async def describe(self, request: Request) -> Response:
        """Return the routes and their fields in the format of OpenAPI."""
        return json_response(self.description)

    async def models(self, request: Request) -> Response:
        """Return a list with the model."""
        listed: ModelList = {"object": "list", "data": [self._entry()]}
        return json_response(listed)

    async def model(self, request: Request) -> Response:
        """Return the model of a name."""
        self._check_model(request.path_params["name"])
        return json_response(self._entry())

    async def complete(self, request: Request) -> Response:
        """Answer the last message of a chat."""
        self.worker.check_room()
        chat = await parsed(request, ChatRequest)
        if chat.model is not None:
            self._check_model(chat.model)
        search = selected_search(self.run.recipe.generation, chat)
        seed = "" if not draws(search) else token_hex(8) if chat.seed is None else str(chat.seed)
        identity: Identity = {
            "id": f"chatcmpl-{token_hex(12)}",
            "created": int(time.time()),
            "model": self.run.name,
        }
        job = Generation(chat.context, search, seed)
        if chat.stream:
            return await self._stream(request, job, chat, identity)
        answer: Answer = await self._awaited(request, job, asyncio.wrap_future(job.future))
        candidates = generated(answer.candidates)[: chat.n or 1]
        return json_response(completion(identity, candidates, answer.source_tokens))

    async def attention(self, request: Request) -> Response:
        """Return the attention maps of a response, as `dialog attention` writes them."""
        self.worker.check_room()
        body = await parsed(request, AttentionRequest)
        job = Call(lambda: self._attention(body))
        content: str = await self._awaited(request, job, asyncio.wrap_future(job.future))
        return Response(
            content, media_type="application/json" if body.format == "json" else "text/html"
        )

    def _attention(self, body: AttentionRequest) -> str:
        """Return the maps as JSON or a page; called by the worker, since the work holds Python's
        lock.
        """
        if body.response is None:
            response: str | Candidate = generated(self.run.responder.respond([body.context])[0])[0]
        else:
            (tokens,) = self.run.tokenizer.encode_batch([body.response])
            if len(tokens) > MOST_RESPONSE_TOKENS:
                raise RequestError(
                    400, f"response: give at most {MOST_RESPONSE_TOKENS} tokens", field="response"
                )
            response = body.response
        reading = self.run.attention(body.context, response)
        if body.format == "json":
            return "".join(reading.json_pieces())
        if not reading["maps"]:
            raise RequestError(409, f"{self.run.name} has no attention; there is nothing to draw")
        return attention_page([("", reading)], title="", folds_dialogue=True)

    def _entry(self) -> ModelEntry:
        """Return the model in OpenAI's format."""
        return {
            "id": self.run.name,
            "object": "model",
            "created": self.started,
            "owned_by": "dialog",
        }

    def _check_model(self, name: str) -> None:
        """Raise RequestError unless this is the name of the model."""
        if name != self.run.name:
            message = f"unknown model {name!r}; this service has {self.run.name!r}"
            raise RequestError(404, message, field="model", code="model_not_found")

    async def _awaited(
        self, request: Request, job: Generation | Call, result: Awaitable[Result]
    ) -> Result:
        """Run a job on the worker; return what is awaited.

        The job is cancelled if the client leaves before.

        Raises:
            RequestError: after `DEADLINE` seconds, or at the end of the service.
        """
        self.worker.submit(job)
        watching = asyncio.create_task(cancel_when_left(request, job))
        try:
            async with asyncio.timeout(DEADLINE):
                return await result
        except BaseException as error:
            job.future.cancel()
            if isinstance(error, TimeoutError):
                raise RequestError(
                    503, f"no response within {DEADLINE:.0f} s; try again later"
                ) from error
            if isinstance(error, asyncio.CancelledError):
                raise RequestError(503, "the service ends") from error
            raise
        finally:
            watching.cancel()

    async def _stream(
        self, request: Request, job: Generation, chat: ChatRequest, identity: Identity
    ) -> Response:
        """Return a stream of events; an error before the first piece is an ordinary response."""
        loop = asyncio.get_running_loop()
        pieces = asyncio.Queue[str | None]()

        def emit(piece: str | None) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

        job.emit = emit
        job.future.add_done_callback(lambda _: emit(None))
        first = await self._awaited(request, job, pieces.get())
        if first is None:
            generated(job.future.result().candidates)  # raises an error

        async def events() -> AsyncIterator[str]:
            try:
                yield event(chunk(identity, {"role": "assistant", "content": ""}))
                piece = first
                while piece is not None:
                    yield event(chunk(identity, {"content": piece}))
                    await asyncio.sleep(0)  # lets Starlette notice that the client has gone
                    piece = await pieces.get()
            finally:  # the client may have gone
                job.future.cancel()
            try:
                answer = job.future.result()
                best = generated(answer.candidates)[0]
            except Exception as error:
                yield event(request_error(error).content)
                return
            yield event(chunk(identity, {}, finish_reason(best)))
            if chat.stream_options is not None and chat.stream_options.include_usage:
                yield event(usage_chunk(identity, [best], answer.source_tokens))
            yield END_OF_STREAM

        return StreamingResponse(events(), media_type="text/event-stream")


def chat_page(name: str, *, needs_key: bool) -> str:
    """Return the web page of a model; it shows all texts of a chat as text, never as HTML.

    The attention maps are in a sandboxed frame without an origin.
    """
    return render_page(
        PACKAGE,
        "page.html.j2",
        {"name": printable(name), "needs_key": needs_key},
        scripts=("page.js",),
        style=joined(PACKAGE, ("page.css",)),
        framed=[page_sources()],
        connects=True,
    )


async def cancel_when_left(request: Request, job: Generation | Call) -> None:
    """Cancel a job when the client of a request, whose body has been read, closes the
    connection.
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
