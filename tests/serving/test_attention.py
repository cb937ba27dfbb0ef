"""``POST /attention``, the other routes, and the description of all of them."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from client import CHAT, Client, messages
from jsonschema import Draft202012Validator, ValidationError
from starlette.routing import Route

from dialog.report.drawing.attention.reading import AttentionReading
from dialog.runs.run import Run

CONTEXT = ["Where is Anna ?", "In the kitchen ."]


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        assert not [name for name, _ in attrs if name.startswith("on")]


def written(reading: AttentionReading, path: Path) -> dict[str, Any]:
    reading.write_json(path)
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def test_maps_of_a_given_response(client: Client, run: Run, tmp_path: Path) -> None:
    answer = client.post("/attention", {"context": CONTEXT, "response": "Thanks ."})
    assert answer.status == 200
    assert answer.json == written(run.attention(CONTEXT, "Thanks ."), tmp_path / "maps.json")


def test_maps_of_a_generated_response(client: Client, run: Run, tmp_path: Path) -> None:
    answer = client.post("/attention", {"context": CONTEXT})
    assert answer.json == written(run.respond(CONTEXT).attention(), tmp_path / "maps.json")


def test_page_of_maps_shows_text_as_text(client: Client) -> None:
    plain, hostile = (
        client.post("/attention", {"context": [text], "response": text, "format": "html"})
        for text in ("Hi .", "</script><img src=x onerror=alert(1)>")
    )
    assert plain.headers["content-type"].startswith("text/html")
    elements = [Elements(), Elements()]
    for parser, answer in zip(elements, (plain, hostile), strict=True):
        parser.feed(answer.text)
    assert "img" not in elements[1].names
    assert elements[0].names.count("script") == elements[1].names.count("script")


def test_model_without_attention(client: Client, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "attention", lambda *_: AttentionReading(maps=[]))
    assert client.post("/attention", {"context": CONTEXT, "response": "Hi ."}).json == {"maps": []}
    answer = client.post("/attention", {"context": CONTEXT, "response": "Hi .", "format": "html"})
    assert (answer.status, answer.error) == (
        409,
        f"{run.name} has no attention; there is nothing to draw",
    )


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "context"),
        ({"context": "Hi ."}, "context"),
        ({"context": ["Hi ."], "reponse": "Hi ."}, "reponse"),
        ({"context": ["Hi ."], "format": "png"}, "format"),
        ({"context": ["Hi ."], "response": "word " * 300}, "response"),
        ([], None),
    ],
)
def test_invalid_requests(client: Client, body: object, field: str | None) -> None:
    answer = client.post("/attention", body)
    assert (answer.status, answer.json["error"]["param"]) == (400, field)
    assert answer.error.startswith(field or "Input")


def test_health_and_models(client: Client, run: Run) -> None:
    assert client.get("/healthz").json == {"status": "ok", "model": run.name, "waiting": 0}
    listed = client.get("/v1/models").json
    assert listed["object"] == "list"
    assert [(model["id"], model["object"]) for model in listed["data"]] == [(run.name, "model")]
    for path in (run.name, quote(run.name, safe="")):
        assert client.get(f"/v1/models/{path}").json == listed["data"][0]
    unknown = client.get("/v1/models/gpt")
    assert (unknown.status, unknown.json["error"]["code"]) == (404, "model_not_found")


def test_description_has_all_routes_and_no_open_end(client: Client) -> None:
    described = client.get("/openapi.json").json
    routes = [route for route in client.service.starlette.routes if isinstance(route, Route)]
    methods = {
        route.path.replace(":path}", "}"): {
            method.lower() for method in route.methods or () if method != "HEAD"
        }
        for route in routes
    }
    assert {path: set(operations) for path, operations in described["paths"].items()} == methods
    names = json.dumps(described).split('"$ref": "#/components/schemas/')[1:]
    assert {name.partition('"')[0] for name in names} <= set(described["components"]["schemas"])


def test_replies_are_as_described(client: Client) -> None:
    turns = messages("Hi .")
    stream = client.chat("Hi .", stream=True, stream_options={"include_usage": True})
    answers = {
        ("/healthz", "get"): client.get("/healthz").json,
        ("/v1/models", "get"): client.get("/v1/models").json,
        ("/v1/models/{name}", "get"): client.get("/v1/models").json["data"][0],
        ("/openapi.json", "get"): client.get("/openapi.json").json,
        ("/readyz", "get"): client.get("/readyz").json,
        ("/runs", "get"): client.get("/runs").json,
        (CHAT, "post"): client.chat("Hi .").json,
        ("/attention", "post"): client.post(
            "/attention", {"context": CONTEXT, "response": "Fine ."}
        ).json,
    }
    described = client.get("/openapi.json").json
    for (path, method), content in answers.items():
        check(
            described,
            described["paths"][path][method]["responses"]["200"],
            "application/json",
            content,
        )
    operation = described["paths"][CHAT]["post"]
    for chunk in stream.events:
        check(described, operation["responses"]["200"], "text/event-stream", chunk)
    check(
        described,
        operation["responses"]["400"],
        "application/json",
        client.post(CHAT, {"messages": turns, "n": 9}).json,
    )
    with pytest.raises(ValidationError):
        check(described, operation["responses"]["200"], "application/json", {"choices": []})


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"n": 7},
        {"n": 7, "temperature": 0},
        {"n": 7, "temperature": 1},
        {"n": 7, "top_p": None},
        {"n": 7, "top_k": 5, "stream": True},
        {"n": 7, "top_k": 5, "stream": False},
        {"n": 1, "stream": True},
        {"stop": []},
        {"stop": [""]},
        {"logprobs": True},
        {"stop": "."},
        {"user": 5},
        {"top_q": 1},
    ],
)
def test_requests_are_accepted_as_described(client: Client, fields: dict[str, object]) -> None:
    described = client.get("/openapi.json").json
    body = {"messages": messages("Hi ."), **fields}
    answer = client.post(CHAT, body)
    try:
        check(described, described["paths"][CHAT]["post"]["requestBody"], "application/json", body)
    except ValidationError:
        assert answer.status == 400
    else:
        assert answer.status == 200


def check(
    described: dict[str, Any], place: dict[str, Any], media_type: str, content: object
) -> None:
    """Raise ValidationError unless the content is as the schema of a request or response says."""
    schema = place["content"][media_type]["schema"]
    Draft202012Validator({**schema, "components": described["components"]}).validate(content)
