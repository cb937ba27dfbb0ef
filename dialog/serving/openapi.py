"""Description of the service in the format of OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from dialog.config.schema import GenerationConfig
from dialog.generation.chosen_search import has_candidates
from dialog.serving.replies import (
    Chunk,
    Completion,
    ErrorReply,
    Health,
    ModelEntry,
    ModelList,
    ResponseMaps,
    UsageChunk,
)
from dialog.serving.requests import SAMPLING_FIELDS, AttentionRequest, ChatRequest
from dialog.version import __version__

SCHEMAS = "#/components/schemas/"
EVENTS = (Chunk, UsageChunk, ErrorReply)
KINDS = (
    *EVENTS,
    ResponseMaps,
    AttentionRequest,
    ChatRequest,
    Completion,
    Health,
    ModelEntry,
    ModelList,
)
PAGE: dict[str, Any] = {"text/html": {"schema": {"type": "string"}}}
FAILURES = {"401": "no key", "403": "other host or origin", "503": "too many connections"}
POST_FAILURES = {
    "400": "invalid request",
    "404": "unknown model",
    "413": "body too long",
    "415": "not declared as JSON",
    "429": "too many requests wait",
    "500": "failure",
    "503": "too many connections, or no response in time",
}


def openapi(name: str, generation: GenerationConfig) -> dict[str, Any]:
    """Return the routes and their fields; `name` is that of the model, and `generation` has its
    search.
    """
    adapters: list[tuple[str, Any, Any]] = [
        (kind.__name__, "validation", TypeAdapter(kind)) for kind in KINDS
    ]
    _, described = TypeAdapter.json_schemas(adapters, ref_template=f"{SCHEMAS}{{model}}")
    schemas = described["$defs"]
    schemas[ChatRequest.__name__] |= _limits_of_n(generation)
    itself = {
        "application/json": {"schema": {"type": "object", "required": ["openapi", "info", "paths"]}}
    }
    completions = _json(Completion) | {
        "text/event-stream": {"schema": {"anyOf": list(map(_reference, EVENTS))}}
    }
    maps = _json(ResponseMaps) | PAGE
    return {
        "openapi": "3.1.0",
        "info": {"title": f"dialog: {name}", "version": __version__},
        "paths": {
            "/": {"get": _operation("Web page", PAGE)},
            "/healthz": {
                "get": _operation("State of the service", _json(Health), {"403": FAILURES["403"]})
            },
            "/openapi.json": {"get": _operation("This description", itself)},
            "/v1/models": {"get": _operation("List of the model", _json(ModelList))},
            "/v1/models/{name}": {
                "get": _named(_operation("The model of a name", _json(ModelEntry)))
            },
            "/v1/chat/completions": {
                "post": _reads(
                    ChatRequest,
                    _operation("Response to the last message, in OpenAI's format", completions),
                )
            },
            "/attention": {
                "post": _reads(AttentionRequest, _operation("Attention maps of a response", maps))
            },
        },
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _limits_of_n(generation: GenerationConfig) -> dict[str, Any]:
    """Return the condition of several responses: not streamed, and from a search that has
    candidates.
    """
    several: dict[str, Any] = {
        "properties": {"stream": {"enum": [False, None]}, "temperature": {"not": {"const": 0}}}
    }
    if not has_candidates(generation.search):
        sampling = [
            {"required": [field], "properties": {field: {"type": "number"}}}
            for field in SAMPLING_FIELDS
        ]
        several["anyOf"] = sampling
    return {
        "if": {"required": ["n"], "properties": {"n": {"type": "integer", "minimum": 2}}},
        "then": several,
    }


def _operation(
    summary: str, content: dict[str, Any], failures: dict[str, str] = FAILURES
) -> dict[str, Any]:
    responses = {"200": {"description": "success", "content": content}}
    return {"summary": summary, "responses": responses | _failures(failures)}


def _failures(failures: dict[str, str]) -> dict[str, Any]:
    return {
        status: {"description": text, "content": _json(ErrorReply)}
        for status, text in failures.items()
    }


def _reads(body: type, operation: dict[str, Any]) -> dict[str, Any]:
    """Add the body of a request."""
    failures = _failures(POST_FAILURES | ({} if body is ChatRequest else {"409": "no maps"}))
    required = {"required": True, "content": _json(body)}
    return {**operation, "requestBody": required, "responses": operation["responses"] | failures}


def _named(operation: dict[str, Any]) -> dict[str, Any]:
    """Add the name of a model as a part of the path."""
    parameter = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    responses = operation["responses"] | _failures({"404": "unknown model"})
    return {**operation, "parameters": [parameter], "responses": responses}


def _json(kind: type) -> dict[str, Any]:
    return {"application/json": {"schema": _reference(kind)}}


def _reference(kind: type) -> dict[str, Any]:
    return {"$ref": f"{SCHEMAS}{kind.__name__}"}
