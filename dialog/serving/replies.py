"""Objects that the service returns, in OpenAI's format where it has one: completions, chunks of a
stream, errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NotRequired

from starlette.responses import Response
from typing_extensions import TypedDict  # the one that pydantic describes

from dialog.data.tokenizers.tokenizer import EOS
from dialog.escaping import to_json
from dialog.generation.responder import Candidate

RETRY_AFTER = "1"
"""Seconds after which a client may try again."""
END_OF_STREAM = "data: [DONE]\n\n"

ErrorType = Literal["invalid_request_error", "rate_limit_error", "server_error"]


class ErrorDetail(TypedDict):
    """Error: what is wrong, and the field of the request that it is about."""

    message: str
    type: ErrorType
    param: str | None
    code: str | None


class ErrorReply(TypedDict):
    """Reply to a request that fails."""

    error: ErrorDetail


class Health(TypedDict):
    """State of the service."""

    status: Literal["ok"]
    model: str
    waiting: int


class ModelEntry(TypedDict):
    """Entry of the list of models."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: Literal["dialog"]


class ModelList(TypedDict):
    """List of the one model."""

    object: Literal["list"]
    data: list[ModelEntry]


class Identity(TypedDict):
    """Fields that all chunks of a stream share."""

    id: str
    created: int
    model: str


class Usage(TypedDict):
    """Numbers of tokens that the model has read and generated."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ReplyMessage(TypedDict):
    """Generated response."""

    role: Literal["assistant"]
    content: str


FinishReason = Literal["stop", "length"]


class Choice(TypedDict):
    """One of several responses."""

    index: int
    message: ReplyMessage
    logprobs: None
    finish_reason: FinishReason


class Completion(Identity):
    """Responses to a chat."""

    object: Literal["chat.completion"]
    choices: list[Choice]
    usage: Usage


class Delta(TypedDict):
    """Text that a chunk adds to a response."""

    role: NotRequired[Literal["assistant"]]
    content: NotRequired[str]


class ChunkChoice(TypedDict):
    """Piece of a streamed response."""

    index: int
    delta: Delta
    logprobs: None
    finish_reason: FinishReason | None


class Chunk(Identity):
    """Event of a streamed response."""

    object: Literal["chat.completion.chunk"]
    choices: list[ChunkChoice]


class UsageChunk(Chunk):
    """Last event of a streamed response with ``include_usage``; it has no choice."""

    usage: Usage


class TurnEntry(TypedDict):
    """Fact or turn of the context."""

    speaker: Literal["self", "other"]
    text: str


class LayerMap(TypedDict):
    """Map of one layer: `weights` [heads][rows][columns]."""

    name: str
    kind: str
    side: str
    columns: str
    weights: list[list[list[float | None]]]


class ResponseMaps(TypedDict):
    """Maps of a response, as `dialog attention` writes them."""

    context_tokens: list[str]
    response_tokens: list[str]
    maps: list[LayerMap]
    rollout: list[list[float | None]] | None
    response: str
    turns: list[TurnEntry]
    context_lines: list[int]
    context_kinds: list[str]
    response_kinds: list[str]
    dropped_tokens: int
    unread_turns: list[str]


class RequestError(Exception):
    """A request that is answered with an error object.

    Args:
        status: HTTP status.
        message: What is wrong, where, and what to do.
        field: Field of the request.
        code: Code of OpenAI's for errors that clients handle.
    """

    def __init__(
        self, status: int, message: str, *, field: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        kind: ErrorType = "rate_limit_error" if status == 429 else "invalid_request_error"
        if status >= 500:
            kind = "server_error"
        self.content: ErrorReply = {
            "error": {"message": message, "type": kind, "param": field, "code": code}
        }

    def response(self) -> Response:
        """Return the error as a response."""
        headers = {"Retry-After": RETRY_AFTER} if self.status in (429, 503) else {}
        return json_response(self.content, self.status, headers)


def json_response(
    content: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return JSON with null for numbers that are not finite."""
    return Response(to_json(content), status, headers, media_type="application/json")


def completion(
    identity: Identity, candidates: Sequence[Candidate], source_tokens: int
) -> Completion:
    """Return candidates as the choices of a chat completion."""
    choices: list[Choice] = [
        {
            "index": number,
            "message": {"role": "assistant", "content": candidate.text},
            "logprobs": None,
            "finish_reason": finish_reason(candidate),
        }
        for number, candidate in enumerate(candidates)
    ]
    return {
        **identity,
        "object": "chat.completion",
        "choices": choices,
        "usage": usage(candidates, source_tokens),
    }


def chunk(identity: Identity, delta: Delta, finish: FinishReason | None = None) -> Chunk:
    """Return one piece of a streamed response."""
    choice: ChunkChoice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return {**identity, "object": "chat.completion.chunk", "choices": [choice]}


def usage_chunk(
    identity: Identity, candidates: Sequence[Candidate], source_tokens: int
) -> UsageChunk:
    """Return the last piece of a stream with ``include_usage``."""
    return {
        **identity,
        "object": "chat.completion.chunk",
        "choices": [],
        "usage": usage(candidates, source_tokens),
    }


def usage(candidates: Sequence[Candidate], source_tokens: int) -> Usage:
    """Count the tokens that the model has read and generated."""
    generated = sum(candidate.tokens for candidate in candidates)
    return {
        "prompt_tokens": source_tokens,
        "completion_tokens": generated,
        "total_tokens": source_tokens + generated,
    }


def event(content: Chunk | ErrorReply) -> str:
    """Return a server-sent event."""
    return f"data: {to_json(content)}\n\n"


def finish_reason(candidate: Candidate) -> FinishReason:
    """Return "stop" if the end token was generated, else "length"."""
    return "stop" if candidate.ids and candidate.ids[-1] == EOS else "length"
