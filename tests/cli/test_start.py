"""The verbs start and cache without a terminal: they ask for --yes, and change nothing before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from program import series

pytestmark = pytest.mark.usefixtures("here")


def test_without_a_terminal_yes_is_needed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIALOG_CACHE", str(here / "cache"))
    mark = "0123456789ab"
    prepared = here / "cache" / f"jsonl-{mark}"
    prepared.mkdir(parents=True)
    (prepared / "manifest.json").write_text(json.dumps({"fingerprint": mark}))
    said = ["Hi .", "Hello .", "Fine ?", "Yes ."]
    chats = [{"turns": [f"{number} {text}" for text in said]} for number in range(80)]
    (here / "my.jsonl").write_text("".join(json.dumps(chat) + "\n" for chat in chats))
    before = sorted(here.rglob("*"))
    prune = ["cache", "prune"]
    listed, refused, unknown, start = series(
        [["cache", "list", "--json"], prune, [*prune, "letters", "--yes"], ["start", "my.jsonl"]]
    )
    assert start.code == 2
    assert "--yes" in start.err
    assert "0 Hi" in start.out  # what is to be checked
    (entry,) = json.loads(listed.out)["entries"]
    assert (entry["name"], entry["kind"]) == (prepared.name, "prepared data")
    assert (refused.code, unknown.code) == (2, 2)
    assert "--yes" in refused.err
    assert "letters" in unknown.err
    assert "torch" not in listed.loaded
    assert sorted(here.rglob("*")) == before
    (pruned,) = series([["cache", "prune", "--yes"]])
    assert pruned.code == 0
    assert not prepared.exists()
