"""run.py --reproduce in a checkout of its own: a change without effect, then one that changes the weights."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

import dialog
from dialog.comparison.grid.folder import contender_hash
from dialog.config.compose import compose
from dialog.data.store.manifest import read_manifest
from dialog.runs.folder import ENVIRONMENT, WEIGHTS
from dialog.runs.prepare import prepare_data

ROOT = Path(dialog.__file__).parents[1]
NAME = "quickstart/lstm_bahdanau"
OVERRIDES = ["data.corpus.size=60", "data.tokenizer.vocabulary=400", "data.batch_tokens=700", "preflight=false"]
SEED = "seed_everything(number"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of the package with its recipes, in a git repository."""
    folder = tmp_path / "checkout"
    for name in ("dialog", "configs", "recipes", "benchmarks"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "reproduced.json"))
    git(folder, "init", "--quiet")
    return folder


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "change")
    return git(folder, "describe", "--always", "--abbrev=12")


def reproduce(checkout: Path, tmp_path: Path) -> tuple[int, str]:
    options = {"queue": "queue.yaml", "recipes": "checkout/recipes"}
    command = [sys.executable, "checkout/benchmarks/results/run.py", "--reproduce"]
    command += [text for name, value in options.items() for text in (f"--{name}", value)]
    ended = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(checkout)}, capture_output=True, text=True
    )
    return ended.returncode, ended.stderr.strip().splitlines()[-1]


def test_results_of_older_code_are_reproduced_or_marked(checkout: Path, tmp_path: Path) -> None:
    train = checkout / "dialog" / "training" / "trainer.py"
    text = train.read_text()
    assert SEED in text
    train.write_text(text.replace(SEED, f"{SEED} + 1"))
    other = commit(checkout)
    train.write_text(text)
    old = commit(checkout)
    composed = compose(NAME, OVERRIDES)
    run = {
        "seed": 1,
        "commits": [old],
        "date": "2026-01-01",
        "hardware": "a processor",
        "threads": 1,
        "torch": "2.11",
        "data": read_manifest(prepare_data(composed.recipe, quiet=True))["fingerprint"],
        "steps": 24,
        "seconds": 1.0,
        "diverged": False,
        "metrics": {"bits_per_byte": 1.0, "f1": 1.0, "history": {"random_context": 0.1}},
    }
    row = {"name": NAME, "recipe": NAME, "overrides": OVERRIDES, "hash": contender_hash(composed.recipe)}
    rows = [{**row, "parameters": 1, "runs": [run, {**run, "seed": 2, "commits": [other]}]}]
    record = {"columns": ["f1"], "command": "run.py", "verdict": "", "missing": [], "notes": [], "recipes": rows}
    path = checkout / "recipes" / "quickstart" / "results" / "one.json"
    path.write_text(json.dumps(record))
    (tmp_path / "queue.yaml").write_text(f"one:\n  stage: a\n  purpose: one\n  recipes: {{{NAME}: 0.1}}\n")

    part = checkout / "dialog" / "models" / "__init__.py"
    part.write_text(part.read_text() + "\nUNUSED = 1\n")
    dirty = "dialog: --reproduce: the checkout has uncommitted changes; commit them first"
    assert reproduce(checkout, tmp_path) == (2, dirty)
    now = commit(checkout)
    assert reproduce(checkout, tmp_path) == (1, f"dialog: not reproduced: {NAME} at {other}: other weights")
    (entry,) = json.loads((checkout / "recipes" / "reproduced.json").read_text())["entries"]
    assert (entry["hash"], entry["commit"], entry["at"]) == (row["hash"], old, now)
    readme = (path.parents[1] / "README.md").read_text()
    assert "| 1, 2 † |" in readme
    assert f"The code has changed since {old}; except for †, short runs give the same results" in readme
    assert f"† Not current: measured at {other}, the code has changed since" in readme


def test_a_measurement_that_is_missing_now_is_a_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "results"))
    import reproduce

    save_file({"weight": torch.ones(1)}, tmp_path / WEIGHTS)
    (tmp_path / ENVIRONMENT).write_text('{"data": "d"}')
    monkeypatch.setattr(reproduce.ShortRuns, "trained", lambda self, row, commit: tmp_path)
    monkeypatch.setattr(reproduce.ShortRuns, "metrics", lambda self, folder, commit, run: {"f1": 1.0})
    runs = reproduce.ShortRuns(tmp_path, ROOT, "now")
    measured = {"f1": 2.0, "history": {"random_context": 0.1}}
    assert runs.difference({}, {"data": "d", "metrics": measured}, "before") == "history not measured"
    assert runs.difference({}, {"data": "d", "metrics": {"f1": 2.0}}, "before") == ""


def test_the_last_code_with_the_same_results_stands_for_a_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "results"))
    import reproduce

    later = {("h", "a"): ["b", "c"], ("h", "c"): ["e"], ("h", "d"): ["e"], ("other", "f"): ["e"]}
    monkeypatch.setattr("dialog.recipes.measured.changed_since", "changed since {}".format)
    monkeypatch.setattr("dialog.recipes.measured.reproductions", lambda path: later)
    monkeypatch.setattr(reproduce, "present_hash", lambda row: "h")
    runs = [{"commits": ["a"]}, {"commits": ["d", "f"]}, {"commits": ["g-dirty"]}]
    assert list(reproduce.old_runs({"hash": "h", "runs": runs})) == [("e", runs[0]), ("f", runs[1])]
