"""Routes of the service."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from secrets import token_hex
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response, StreamingResponse
from starlette.routing import Route

from dialog.errors import UserError
from dialog.generation.chosen_search import draws
from dialog.generation.responder import Candidate
from dialog.report.drawing.attention.page import attention_page
from dialog.report.drawing.attention.reading import AttentionReading
from dialog.runs.run import Run
from dialog.serving.gatekeeper import Gatekeeper, read_body
from dialog.serving.openapi import openapi
from dialog.serving.page import chat_page
from dialog.serving.replies import (
    END_OF_STREAM,
    RequestError,
    chunk,
    completion,
    event,
    finish_reason,
    json_response,
    usage_chunk,
)
from dialog.serving.requests import AttentionRequest, ChatRequest, first_error, selected_search
from dialog.serving.worker import Call, Generation, NotNumbersError, OverloadedError, Worker

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
        self.description = openapi(run.name)
        routes = [
            Route("/", self.show_page),
            Route("/healthz", self.health),
            Route("/openapi.json", self.describe),
            Route("/v1/models", self.models),
            Route("/v1/models/{name:path}", self.model),
            Route("/v1/chat/completions", self.complete, methods=["POST"]),
            Route("/attention", self.attention, methods=["POST"]),
        ]
        self.starlette = Starlette(routes=routes, exception_handlers=ERROR_RESPONSES)
        self.app = Gatekeeper(self.starlette, token=token, hosts=hosts, public=("/", "/healthz"))

    async def show_page(self, request: Request) -> Response:
        """Return the web page."""
        return HTMLResponse(self.page)

    async def health(self, request: Request) -> Response:
        """Return the state of the service."""
        return json_response({"status": "ok", "model": self.run.name, "waiting": self.worker.waiting})

    async def describe(self, request: Request) -> Response:
        """Return the routes and their fields in the format of OpenAPI."""
        return json_response(self.description)

    async def models(self, request: Request) -> Response:
        """Return a list with the model."""
        return json_response({"object": "list", "data": [self._description()]})

    async def model(self, request: Request) -> Response:
        """Return the model of a name."""
        self._check_model(request.path_params["name"])
        return json_response(self._description())

    async def complete(self, request: Request) -> Response:
        """Answer the last message of a chat."""
        chat = await parsed(request, ChatRequest)
        if chat.model is not None:
            self._check_model(chat.model)
        search = selected_search(self.run.recipe.generation, chat)
        seed = "" if not draws(search) else token_hex(8) if chat.seed is None else str(chat.seed)
        identity = {"id": f"chatcmpl-{token_hex(12)}", "created": int(time.time()), "model": self.run.name}
        job = Generation(chat.context, search, seed)
        if chat.stream:
            return await self._stream(job, chat, identity)
        candidates = (await self._result(job))[: chat.n or 1]
        return json_response(completion(identity, candidates, self._usage(job.context, candidates)))

    async def attention(self, request: Request) -> Response:
        """Return the attention maps of a response, as `dialog attention` writes them."""
        body = await parsed(request, AttentionRequest)
        if body.response is not None and len(self.run.tokenizer.encode(body.response)) > MOST_RESPONSE_TOKENS:
            raise RequestError(400, f"response: give at most {MOST_RESPONSE_TOKENS} tokens", field="response")

        def read() -> AttentionReading:
            if body.response is not None:
                return self.run.attention(body.context, body.response)
            candidates = self.run.responder.respond([body.context])[0]
            if not candidates:
                raise NotNumbersError
            return self.run.attention(body.context, candidates[0])

        reading = await self._result(Call(read))
        if body.format == "json":
            text = await asyncio.to_thread("".join, reading.json_pieces())
            return Response(text, media_type="application/json")
        if not reading["maps"]:
            raise RequestError(409, f"{self.run.name} has no attention; there is nothing to draw")
        return HTMLResponse(await asyncio.to_thread(attention_page, [("", reading)], title="", folds_dialogue=True))

    def _description(self) -> dict[str, Any]:
        """Return the model in OpenAI's format."""
        return {"id": self.run.name, "object": "model", "created": self.started, "owned_by": "dialog"}

    def _check_model(self, name: str) -> None:
        """Raise RequestError unless this is the name of the model."""
        if name != self.run.name:
            message = f"unknown model {name!r}; this service has {self.run.name!r}"
            raise RequestError(404, message, field="model", code="model_not_found")

    async def _result(self, job: Generation | Call) -> Any:  # noqa: ANN401 - of any job
        """Run a job on the worker; return its result."""
        self.worker.submit(job)
        try:
            return await within_deadline(asyncio.wrap_future(job.future))
        except asyncio.CancelledError as error:
            raise RequestError(503, "the service ends") from error
        finally:
            job.abandoned.set()

    async def _stream(self, job: Generation, chat: ChatRequest, identity: Mapping[str, Any]) -> Response:
        """Return a stream of events; an error before the first piece is an ordinary response."""
        loop, pieces = asyncio.get_running_loop(), asyncio.Queue[str | None]()

        def emit(piece: str | None) -> None:
            loop.call_soon_threadsafe(pieces.put_nowait, piece)

        job.emit = emit
        job.future.add_done_callback(lambda _: emit(None))
        self.worker.submit(job)
        try:
            first = await within_deadline(pieces.get())
        except BaseException:
            job.abandoned.set()
            raise
        if first is None:
            job.future.result()  # raises an error

        async def events() -> AsyncIterator[str]:
            try:
                yield chunk(identity, {"role": "assistant", "content": ""})
                piece = first
                while piece is not None:
                    yield chunk(identity, {"content": piece})
                    await asyncio.sleep(0)  # lets Starlette notice that the client has gone
                    piece = await pieces.get()
            finally:  # the client may have gone
                job.abandoned.set()
            if (error := job.future.exception()) is not None:
                yield event(request_error(error).content)
                return
            best = job.future.result()[0]
            yield chunk(identity, {}, finish_reason(best))
            if chat.stream_options is not None and chat.stream_options.include_usage:
                yield usage_chunk(identity, self._usage(job.context, [best]))
            yield END_OF_STREAM

        return StreamingResponse(events(), media_type="text/event-stream")

    def _usage(self, context: Sequence[str], candidates: Sequence[Candidate]) -> dict[str, int]:
        """Count the tokens that the model has read and generated."""
        source, _ = self.run.responder.encode(self.run.responder.example(context))
        generated = sum(candidate.tokens for candidate in candidates)
        return {
            "prompt_tokens": len(source),
            "completion_tokens": generated,
            "total_tokens": len(source) + generated,
        }


async def parsed(request: Request, kind: type[Body]) -> Body:
    """Return the body of a request.

    Raises:
        RequestError: not JSON, or an unknown, missing or invalid field.
    """
    try:
        return kind.model_validate_json(await read_body(request), strict=True)
    except ValidationError as error:
        message, field = first_error(error)
        raise RequestError(400, message, field=field or None) from error


async def within_deadline(result: Awaitable[Result]) -> Result:
    """Return what is awaited.

    Raises:
        RequestError: after `DEADLINE` seconds.
    """
    try:
        async with asyncio.timeout(DEADLINE):
            return await result
    except TimeoutError as error:
        raise RequestError(503, f"no response within {DEADLINE:.0f} s; try again later") from error


def request_error(error: BaseException) -> RequestError:
    """Return the error that a client receives; it contains nothing of an internal failure."""
    match error:
        case RequestError():
            return error
        case OverloadedError():
            return RequestError(429, "too many requests wait; try again later", code="rate_limit_exceeded")
        case NotNumbersError():
            return RequestError(500, "the scores of the model are not numbers")
        case UserError():
            return RequestError(400, str(error))
        case HTTPException():
            return RequestError(error.status_code, error.detail)
        case ClientDisconnect():
            return RequestError(400, "the body is not complete")
    return RequestError(500, "internal failure")


async def error_response(request: Request, error: Exception) -> Response:
    """Return an error as a response."""
    response = request_error(error).response()
    if isinstance(error, HTTPException):
        response.headers.update(error.headers or {})
    return response


Handler = Callable[[Request, Exception], Coroutine[Any, Any, Response]]
ERROR_RESPONSES: Mapping[Any, Handler] = dict.fromkeys(
    (RequestError, OverloadedError, NotNumbersError, UserError, HTTPException, ClientDisconnect, Exception),
    error_response,
)
