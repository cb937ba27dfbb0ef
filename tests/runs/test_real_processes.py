"""Evaluation and preparation in real processes: several ranks, and signals."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import Server

from dialog.json_files import read_json

BEAM = "generation.search={name: beam, width: 3, candidates: 2}"


def test_ranks_share_a_beam_search(server: Server, trained: Callable[[str], Path]) -> None:
    """In input order, bit for bit as one process."""
    folders = []
    for world in (1, 2):
        run = server.folder / f"searched-{world}"
        shutil.copytree(trained("lstm"), run)
        evaluating = server.start("evaluate", str(run), BEAM, "--name", "beam", world=world)
        assert evaluating.wait() == [0] * world, evaluating.output
        assert evaluating.output.count("results in") == 1
        folders.append(run / "evaluation" / "test-beam")
    one, two = folders
    assert (two / "responses.jsonl").read_bytes() == (one / "responses.jsonl").read_bytes()
    assert read_json(two / "metrics.json") == read_json(one / "metrics.json")
    greedy = one.parents[1] / "evaluation" / "test" / "responses.jsonl"
    assert greedy.read_bytes() != (one / "responses.jsonl").read_bytes()


@pytest.mark.endurance
@pytest.mark.parametrize(
    ("verb", "number", "code"), [("evaluate", signal.SIGTERM, 143), ("prepare", signal.SIGHUP, 129)]
)
def test_signal_ends_a_verb_with_its_code_and_one_line(
    server: Server, trained: Callable[[str], Path], verb: str, number: signal.Signals, code: int
) -> None:
    run, cache = server.folder / f"run-{number}", server.folder / f"cache-{verb}-{number}"
    shutil.copytree(trained("lstm"), run, dirs_exist_ok=True)
    what = str(run) if verb == "evaluate" else "quickstart/transformer"
    before = {path for path in run.rglob("*") if path.is_file()}
    running = server.start(
        verb, what, "data.corpus.size=300000", world=1, environment={"DIALOG_CACHE": str(cache)}
    )
    running.until(lambda: any(cache.rglob("*")))
    running.send(number)
    assert running.wait() == [code], running.output
    assert running.output.splitlines()[-1] == f"stopped by {number.name}"
    assert "Traceback" not in running.output
    assert {path for path in run.rglob("*") if path.is_file()} == before
