"""Objects of OpenAI's format that the service returns: completions, chunks of a stream, errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from starlette.responses import Response

from dialog.data.tokenizers.tokenizer import EOS
from dialog.escaping import to_json
from dialog.generation.responder import Candidate

RETRY_AFTER = "1"
"""Seconds after which a client may try again."""
END_OF_STREAM = "data: [DONE]\n\n"


class RequestError(Exception):
    """A request that is answered with an error object.

    Args:
        status: HTTP status.
        message: What is wrong, where, and what to do.
        field: Field of the request.
        code: Code of OpenAI's for errors that clients handle.
    """

    def __init__(self, status: int, message: str, *, field: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
        self.content = {"error": {"message": message, "type": kind, "param": field, "code": code}}

    def response(self) -> Response:
        """Return the error as a response."""
        headers = {"Retry-After": RETRY_AFTER} if self.status in (429, 503) else {}
        return json_response(self.content, self.status, headers)


def json_response(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return JSON with null for numbers that are not finite."""
    return Response(to_json(content), status, headers, media_type="application/json")


def completion(
    identity: Mapping[str, Any], candidates: Sequence[Candidate], usage: Mapping[str, int]
) -> dict[str, Any]:
    """Return candidates as the choices of a chat completion."""
    choices = [
        {
            "index": number,
            "message": {"role": "assistant", "content": candidate.text},
            "logprobs": None,
            "finish_reason": finish_reason(candidate),
        }
        for number, candidate in enumerate(candidates)
    ]
    return {**identity, "object": "chat.completion", "choices": choices, "usage": dict(usage)}


def chunk(identity: Mapping[str, Any], delta: Mapping[str, str], finish: str | None = None) -> str:
    """Return the event of one piece of a streamed response."""
    choice = {"index": 0, "delta": dict(delta), "logprobs": None, "finish_reason": finish}
    return event({**identity, "object": "chat.completion.chunk", "choices": [choice]})


def usage_chunk(identity: Mapping[str, Any], usage: Mapping[str, int]) -> str:
    """Return the last event of a stream with ``include_usage``."""
    return event({**identity, "object": "chat.completion.chunk", "choices": [], "usage": dict(usage)})


def event(content: object) -> str:
    """Return a server-sent event."""
    return f"data: {to_json(content)}\n\n"


def finish_reason(candidate: Candidate) -> str:
    """Return "stop" if the end token was generated, else "length"."""
    return "stop" if candidate.ids and candidate.ids[-1] == EOS else "length"
