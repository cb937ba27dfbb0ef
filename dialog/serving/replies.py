"""Objects that the service returns, in OpenAI's format where it has one: completions, chunks of a
stream, errors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NotRequired

from starlette.responses import Response
from typing_extensions import TypedDict  # the one that pydantic describes

from dialog.data.tokenizers.tokenizer import EOS
from dialog.escaping import to_json
from dialog.generation.responder import Candidate

RETRY_AFTER = "1"
"""Seconds after which a client may try again."""
END_OF_STREAM = "data: [DONE]\n\n"
PLACE = "text"
"""Stands for the text of an event."""

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
    """List of the models."""

    object: Literal["list"]
    data: list[ModelEntry]


class Identity(TypedDict):
    """Fields that all chunks of a stream share."""

    id: str
    created: int
    model: str
    warnings: NotRequired[list[str]]  # what was ignored


class Usage(TypedDict):
    """Numbers of tokens that the model has read and generated."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class ReplyMessage(TypedDict):
    """Generated response."""

    role: Literal["assistant"]
    content: str


class TokenLogprob(TypedDict):
    """Token of a response, and its log-probability."""

    token: str
    logprob: float | None
    bytes: list[int]
    top_logprobs: list[None]


class Logprobs(TypedDict):
    """Tokens of a response, without the end token."""

    content: list[TokenLogprob]
    refusal: None


FinishReason = Literal["stop", "length"]


class Choice(TypedDict):
    """One of several responses."""

    index: int
    message: ReplyMessage
    logprobs: Logprobs | None
    score: float  # log-probability in nats, end token included
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
    logprobs: Logprobs | None
    finish_reason: FinishReason | None


class Chunk(Identity):
    """Event of a streamed response."""

    object: Literal["chat.completion.chunk"]
    choices: list[ChunkChoice]


class UsageChunk(Chunk):
    """Last event of a streamed response with ``include_usage``; it has no choice."""

    usage: Usage


class Ready(TypedDict):
    """Answer of /readyz."""

    ready: bool


class ServedRunEntry(TypedDict):
    """A run as the web page shows it; `facts` and `results` are labels and texts."""

    name: str
    facts: list[tuple[str, str]]
    results: list[tuple[str, str]]
    search: str
    openings: list[str]  # of its corpus; none if its owner does not show them
    removed: bool  # whether its folder is gone


class ServedRunList(TypedDict):
    """The runs, and whether votes are kept."""

    runs: list[ServedRunEntry]
    votes: bool


class Saved(TypedDict):
    """Answer to a vote that is in the file."""

    saved: Literal[True]


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


def choice(
    number: int, candidate: Candidate, stops: Sequence[str], logprobs: Logprobs | None
) -> Choice:
    """Return a candidate as a choice of a chat completion."""
    return {
        "index": number,
        "message": {"role": "assistant", "content": before_stop(candidate.text, stops)},
        "logprobs": logprobs,
        "score": candidate.score,
        "finish_reason": finish_reason(candidate, stops),
    }


def chunk(
    identity: Identity,
    delta: Delta,
    *,
    index: int = 0,
    finish: FinishReason | None = None,
    logprobs: Logprobs | None = None,
) -> Chunk:
    """Return one piece of a streamed response."""
    own: ChunkChoice = {
        "index": index,
        "delta": delta,
        "logprobs": logprobs,
        "finish_reason": finish,
    }
    return {**identity, "object": "chat.completion.chunk", "choices": [own]}


class TextEvents:
    """Events of the pieces of a response, which differ in their text only; for each token of many
    clients the rest is written once.
    """

    def __init__(self, identity: Identity) -> None:
        whole = event(chunk(identity, {"content": PLACE}))
        self.head, _, self.tail = whole.rpartition(to_json(PLACE))

    def __call__(self, text: str) -> str:
        """Return the event of a piece of text."""
        return f"{self.head}{to_json(text)}{self.tail}"


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


def finish_reason(candidate: Candidate, stops: Sequence[str]) -> FinishReason:
    """Return "stop" if the end token or one of the stops was generated, else "length"."""
    ended = candidate.ids[-1:] == (EOS,) or before_stop(candidate.text, stops) != candidate.text
    return "stop" if ended else "length"


def token_logprobs(candidate: Candidate, pieces: Sequence[bytes]) -> Logprobs:
    """Return the log-probabilities of a response; ``pieces`` are the bytes of each token."""
    content: list[TokenLogprob] = [
        {
            "token": pieces[token].decode("utf-8", errors="replace"),
            "logprob": score,
            "bytes": list(pieces[token]),
            "top_logprobs": [],
        }
        for token, score in zip(candidate.ids, candidate.token_scores, strict=True)
        if token != EOS
    ]
    return {"content": content, "refusal": None}


def before_stop(text: str, stops: Iterable[str]) -> str:
    """Return a text up to the first of the stops in it."""
    return text[: min((place for stop in stops if (place := text.find(stop)) >= 0), default=None)]


def without_stop(text: str, stops: Sequence[str]) -> str:
    """Return the beginning of a growing text that can be shown: no later text makes a part of it
    the beginning of a stop.
    """
    text = before_stop(text, stops)
    longest = max(map(len, stops), default=0)
    for size in range(min(longest, len(text)), 0, -1):
        if any(stop.startswith(text[-size:]) for stop in stops):
            return text[:-size]
    return text
