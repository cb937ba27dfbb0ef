"""``POST /votes``: lines of a file, and what cannot be one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from client import Client, serving

from dialog.comparison.preference.rating_files import RatingReader
from dialog.errors import UserError
from dialog.runs.load import load
from dialog.runs.run import Run
from dialog.serving import votes as votes_module
from dialog.serving.app import Service
from dialog.serving.votes import VoteFile

HOSTILE = "a\nb\r\u2028\u0000\x1b[2J </script> 😀"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "votes.jsonl"


@pytest.fixture
def voting(run: Run, trained: Callable[[str], Path], path: Path) -> Iterator[Client]:
    runs = [run, load(trained("transformer"), device="cpu")]
    with serving(Service(*runs, hosts=("127.0.0.1",), votes=VoteFile(path))) as client:
        yield client


def vote(client: Client, **changes: object) -> dict[str, Any]:
    body: dict[str, Any] = {
        "models": [*client.service.served],
        "context": [HOSTILE],
        "responses": [HOSTILE, "b"],
        "choice": "b",
        "rater": HOSTILE,
    }
    return body | changes


def test_a_vote_is_one_line(voting: Client, path: Path) -> None:
    path.write_bytes(b'{"unfinished": ')
    body = vote(voting)
    assert voting.post("/votes", body).json == {"saved": True}
    assert voting.post("/votes", vote(voting, choice="tie")).status == 200
    unfinished, *lines = path.read_bytes().split(b"\n")[:-1]
    assert unfinished == b'{"unfinished": '
    assert b"\x1b" not in b"".join(lines)
    first, second = map(json.loads, lines)
    assert body.items() <= first.items()
    assert second["choice"] == "tie"
    assert first["searches"] is None
    hashes = [model.run.weights for model in voting.service.served.values()]
    assert first["weights"] == hashes
    assert len({*hashes}) == 2
    path.unlink()
    assert voting.post("/votes", body).status == 200
    assert path.stat().st_mode & 0o077 == 0


def test_compare_reads_votes(voting: Client, path: Path) -> None:
    served = voting.service.served.values()
    for choice in ("a", "tie"):
        settings = [{}, {"search": "sampling", "temperature": 0.7, "max_tokens": 9}]
        body = vote(voting, choice=choice, chat="c1", context=[choice], settings=settings)
        assert voting.post("/votes", body).status == 200
    models = [
        SimpleNamespace(
            name=f"contender {model.name}",
            runs=[SimpleNamespace(hashes={"weights": model.run.weights, "responses.jsonl": ""})],
        )
        for model in served
    ]
    drawn = json.loads(path.read_text().splitlines()[0])["searches"][1]
    assert (drawn["name"], drawn["temperature"], drawn["max_length"]) == ("sampling", 0.7, 9)
    ratings = RatingReader(path.parent, cast("Any", SimpleNamespace(models=models))).read([path])
    assert [rating.winner for rating in ratings] == ["a", "tie"]
    for rating in ratings:
        assert list(rating.pair[:2]) == [model.name for model in models]
        assert rating.key["dialogue"] == "c1"


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ({"choice": "skip"}, 400, "choice"),
        ({"models": ["gpt", "gpt"]}, 404, "model"),
        ({"models": ["a"]}, 400, "models"),
        ({"responses": ["a" * 5000, "b"]}, 400, "responses.0"),
        ({"context": []}, 400, "context"),
        ({"rater": "a" * 81}, 400, "rater"),
        ({"weights": []}, 400, "weights"),
        ({"settings": [{"search": "beam5"}]}, 400, "settings"),
    ],
)
def test_what_is_no_vote(
    voting: Client, path: Path, changes: dict[str, object], status: int, field: str
) -> None:
    answer = voting.post("/votes", vote(voting, **changes))
    assert (answer.status, answer.json["error"]["param"]) == (status, field)
    assert path.read_bytes() == b""


def test_a_full_file_and_a_folder_in_its_place(
    voting: Client, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(votes_module, "MOST_BYTES", 100)
    assert voting.post("/votes", vote(voting)).status == 507
    assert path.read_bytes() == b""
    path.unlink()
    path.mkdir()
    assert voting.post("/votes", vote(voting)).status == 507


def test_no_file(client: Client) -> None:
    name = next(iter(client.service.served))
    answer = client.post("/votes", vote(client, models=[name, name]))
    assert answer.status == 409
    assert "--votes" in answer.error
    assert client.get("/runs").json["votes"] is False


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "none" / "votes.jsonl", tmp_path / "pipe"):
        with pytest.raises(UserError, match=rf"--votes {path}: "):
            VoteFile(path)


def test_facts_and_openings(run: Run) -> None:
    with serving(Service(run, hosts=("127.0.0.1",), openings=3)) as client:
        (entry,) = client.get("/runs").json["runs"]
    assert dict(entry["facts"])["trained on"] == run.recipe.data.corpus["name"]
    assert dict(entry["results"])["test examples"].isdigit()
    assert "F1" in dict(entry["results"])
    assert len({*entry["openings"]}) == 3
