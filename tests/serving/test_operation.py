"""What operators of the service see: readiness, figures, ids, the log, several and deleted runs."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from client import Client, serving

from dialog.cli.serve import serve as serve_command
from dialog.errors import UserError
from dialog.runs.load import load
from dialog.runs.run import Run
from dialog.serving.app import Service
from dialog.serving.gatekeeper import AnsweredRequest
from dialog.serving.server import log_line

CONTEXT = ["Where is Anna ?"]


def test_figures_of_the_service(client: Client) -> None:
    assert client.get("/readyz").json == {"ready": True}
    tokens = client.chat(*CONTEXT).json["usage"]["completion_tokens"]
    client.chat(*CONTEXT, stream=True)
    client.chat(*CONTEXT, temperature="warm")
    client.get("/secret/text")
    answer = client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = answer.text.splitlines()
    figures = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    route = 'route="/v1/chat/completions"'
    assert figures[f'dialog_requests_total{{{route},status="200"}}'] == "2"
    assert figures[f'dialog_requests_total{{{route},status="400"}}'] == "1"
    assert figures['dialog_requests_total{route="other",status="404"}'] == "1"
    assert "secret" not in answer.text
    assert figures["dialog_first_text_seconds_count"] == "1"
    assert figures['dialog_request_seconds_bucket{le="+Inf"}'] == "5"
    model = f'{{model="{client.service.first.name}"}}'
    assert float(figures[f"dialog_generated_tokens_total{model}"]) >= 2 * tokens
    assert figures[f"dialog_waiting{model}"] == figures[f"dialog_rows{model}"] == "0"


def test_ids_of_requests(client: Client) -> None:
    own = client.get("/healthz").headers["x-request-id"]
    assert own != client.get("/healthz").headers["x-request-id"]
    assert client.get("/healthz", X_Request_ID="mine-1").headers["x-request-id"] == "mine-1"
    for hostile in ("a" * 200, "a b", "<b>"):
        assert client.get("/healthz", X_Request_ID=hostile).headers["x-request-id"] != hostile
    assert "x-request-id" in client.get("/", Host="evil.example").headers


def test_log_has_no_texts(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[AnsweredRequest] = []
    with serving(Service(run, log=seen.append)) as client:
        client.chat("Secret .", stream=True)
        client.get("/v1/models/secret?secret")
    for each in seen:
        log_line(each)
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["method"], first["route"], first["status"]) == (
        "POST",
        "/v1/chat/completions",
        200,
    )
    assert (second["route"], second["status"]) == ("/v1/models/{name}", 404)
    assert first["seconds"] > 0
    assert first["id"] != second["id"]
    assert "ecret" not in json.dumps([first, second])


@pytest.fixture
def two(trained: Callable[[str], Path]) -> Iterator[Client]:
    runs = [load(trained(family), device="cpu") for family in ("lstm", "transformer")]
    with serving(Service(*runs)) as client:
        yield client


def test_several_runs_by_name(two: Client) -> None:
    names = [model["id"] for model in two.get("/v1/models").json["data"]]
    assert len(names) == 2
    for name in names:
        run = two.service.served[name].run
        answer = two.chat(*CONTEXT, model=name)
        assert (answer.reply, answer.json["model"]) == (run.respond(CONTEXT).text, name)
        maps = two.post("/attention", {"context": CONTEXT, "response": "Hi .", "model": name})
        assert maps.json["maps"][0]["name"] == run.attention(CONTEXT, "Hi .")["maps"][0]["name"]
    assert two.chat(*CONTEXT).json["model"] == names[0]
    assert two.post("/attention", {"context": CONTEXT, "model": "gpt"}).status == 404


def test_an_ensemble_is_served_alone(trained: Callable[[str], Path]) -> None:
    folder = str(trained("lstm"))
    with pytest.raises(UserError, match="--ensemble"):
        serve_command.main([folder, folder, "--ensemble", folder], standalone_mode=False)


def test_a_run_deleted_while_it_is_served(trained: Callable[[str], Path], tmp_path: Path) -> None:
    """It stays in memory."""
    folder = shutil.copytree(trained("lstm"), tmp_path / "run")
    with serving(Service(load(folder, device="cpu"))) as client:
        shutil.rmtree(folder)
        reply = client.chat(*CONTEXT)
        assert reply.status == 200
        assert client.post("/attention", {"context": CONTEXT, "response": "Hi ."}).status == 200
