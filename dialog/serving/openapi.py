"""Description of the service in the format of OpenAPI 3.1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from dialog.serving.replies import (
    Chunk,
    Completion,
    ErrorReply,
    Health,
    ModelEntry,
    ModelList,
    Ready,
    ResponseMaps,
    Saved,
    ServedRunList,
    UsageChunk,
)
from dialog.serving.requests import AttentionRequest, ChatRequest, VoteRequest
from dialog.version import __version__

SCHEMAS = "#/components/schemas/"
STREAM_EVENTS = (Chunk, UsageChunk, ErrorReply)
SCHEMA_TYPES = (
    *STREAM_EVENTS,
    ResponseMaps,
    AttentionRequest,
    ChatRequest,
    Completion,
    Health,
    ModelEntry,
    ModelList,
    Ready,
    Saved,
    ServedRunList,
    VoteRequest,
)
HTML_PAGE: dict[str, Any] = {"text/html": {"schema": {"type": "string"}}}
NAME_PARAMETER = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
FAILURES = {
    "400": "invalid request",
    "401": "no key",
    "403": "other host or origin",
    "404": "unknown model",
    "409": "no maps, or votes are not kept",
    "413": "body too long",
    "415": "not declared as JSON",
    "429": "too many requests wait",
    "500": "failure",
    "503": "too many connections, or no response in time",
    "507": "no room for a vote",
}
COMMON_FAILURES = ("401", "403", "503")
"""Failures of all routes but the state of the service."""
ENGINE_FAILURES = (*COMMON_FAILURES, "400", "404", "413", "415", "429", "500")
"""Failures of the routes that an engine serves."""


def openapi(name: str) -> dict[str, Any]:
    """Return the routes and their fields; `name` is that of the models."""
    adapters: list[tuple[str, Any, Any]] = [
        (kind.__name__, "validation", TypeAdapter(kind)) for kind in SCHEMA_TYPES
    ]
    _, described = TypeAdapter.json_schemas(adapters, ref_template=f"{SCHEMAS}{{model}}")
    schemas = described["$defs"]
    this_document = {"schema": {"type": "object", "required": ["openapi", "info", "paths"]}}
    completions = _json(Completion)
    completions["text/event-stream"] = {
        "schema": {"anyOf": [_reference(kind) for kind in STREAM_EVENTS]}
    }
    maps = _json(ResponseMaps) | HTML_PAGE
    gets = {
        "/": _operation("Web page", HTML_PAGE),
        "/healthz": _operation("State of the service", _json(Health), ("403",)),
        "/readyz": _operation("Readiness for requests", _json(Ready), ("403", "503")),
        "/metrics": _operation(
            "Figures in Prometheus' text format", {"text/plain": {"schema": {"type": "string"}}}
        ),
        "/openapi.json": _operation("This description", {"application/json": this_document}),
        "/runs": _operation("Facts about the runs", _json(ServedRunList)),
        "/v1/models": _operation("Models", _json(ModelList)),
        "/v1/models/{name}": _operation(
            "One model, by its name",
            _json(ModelEntry),
            (*COMMON_FAILURES, "404"),
            parameters=[NAME_PARAMETER],
        ),
    }
    posts = {
        "/v1/chat/completions": _operation(
            "Response to the last message, in OpenAI's format",
            completions,
            ENGINE_FAILURES,
            requestBody={"required": True, "content": _json(ChatRequest)},
        ),
        "/attention": _operation(
            "Attention maps of a response",
            maps,
            (*ENGINE_FAILURES, "409"),
            requestBody={"required": True, "content": _json(AttentionRequest)},
        ),
    }
    posts["/votes"] = _operation(
        "Keep a vote on two responses",
        _json(Saved),
        (*COMMON_FAILURES, "400", "404", "409", "413", "415", "507"),
        requestBody={"required": True, "content": _json(VoteRequest)},
    )
    paths = {path: {"get": operation} for path, operation in gets.items()}
    paths |= {path: {"post": operation} for path, operation in posts.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"dialog: {name}", "version": __version__},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _operation(
    summary: str, content: dict[str, Any], failures: Sequence[str] = COMMON_FAILURES, **more: Any
) -> dict[str, Any]:
    """Return a route with its successful response, its failures by status, and ``more`` fields."""
    responses = {"200": {"description": "success", "content": content}}
    for status in failures:
        responses[status] = {"description": FAILURES[status], "content": _json(ErrorReply)}
    return {"summary": summary, "responses": responses, **more}


def _json(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": _reference(kind)}}


def _reference(kind: type) -> dict[str, Any]:
    return {"$ref": f"{SCHEMAS}{kind.__name__}"}
