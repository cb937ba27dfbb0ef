"""Description of the service in the format of OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import models_json_schema

from dialog.serving.requests import AttentionRequest, ChatRequest
from dialog.version import __version__

SCHEMAS = "#/components/schemas/"
ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
POST_ERRORS = {
    "400": "invalid request",
    "404": "unknown model",
    "413": "body too long",
    "415": "not declared as JSON",
    "429": "too many requests wait",
    "500": "failure",
    "503": "no response in time",
}


def openapi(name: str) -> dict[str, Any]:
    """Return the routes and their fields; `name` is that of the model."""
    kinds = (ChatRequest, AttentionRequest)
    _, definitions = models_json_schema([(kind, "validation") for kind in kinds], ref_template=f"{SCHEMAS}{{model}}")
    page: dict[str, Any] = {"text/html": {}}
    anything: dict[str, Any] = {"application/json": {"schema": {"type": "object"}}}
    completions = anything | {"text/event-stream": {}}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"dialog: {name}", "version": __version__},
        "paths": {
            "/": {"get": _operation("Web page", page)},
            "/healthz": {"get": _operation("State of the service", anything)},
            "/openapi.json": {"get": _operation("This description", anything)},
            "/v1/models": {"get": _operation("List of the model", anything)},
            "/v1/models/{name}": {"get": _named(_operation("The model of a name", anything))},
            "/v1/chat/completions": {
                "post": _operation("Response to the last message, in OpenAI's format", completions, ChatRequest)
            },
            "/attention": {"post": _operation("Attention maps of a response", anything | page, AttentionRequest)},
        },
        "components": {
            "schemas": {**definitions["$defs"], "Error": ERROR},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{}, {"key": []}],
    }


def _operation(summary: str, content: dict[str, Any], body: type | None = None) -> dict[str, Any]:
    failures = {"401": "no key", "403": "other host or origin"}
    if body is None:
        return {"summary": summary, "responses": _responses(content, failures)}
    schema = {"$ref": f"{SCHEMAS}{body.__name__}"}
    return {
        "summary": summary,
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
        "responses": _responses(content, failures | POST_ERRORS | ({} if body is ChatRequest else {"409": "no maps"})),
    }


def _named(operation: dict[str, Any]) -> dict[str, Any]:
    """Add the name of a model as a part of the path."""
    parameter = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    missing = _responses({}, {"404": "unknown model"})["404"]
    return {**operation, "parameters": [parameter], "responses": operation["responses"] | {"404": missing}}


def _responses(content: dict[str, Any], failures: dict[str, str]) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": f"{SCHEMAS}Error"}}}
    described = {status: {"description": text, "content": error} for status, text in sorted(failures.items())}
    return {"200": {"description": "success", "content": content}, **described}
