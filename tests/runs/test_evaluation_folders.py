"""Evaluations with other settings or data have folders of their own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open
from safetensors.torch import load_file, save_file

import dialog
from dialog.data.reading.files import sha256
from dialog.errors import UserError
from dialog.runs.evaluation.evaluate import evaluate
from dialog.runs.evaluation.evaluated import Evaluated
from dialog.runs.train import train


def dialogues(count: int, text: str) -> str:
    rows = [
        {"id": f"d{number}", "turns": ["Hello .", f"{text} {number} .", "Bye ."]}
        for number in range(count)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def corpus(folder: Path, test: str) -> Path:
    folder.mkdir()
    for split, content in (
        ("train", dialogues(8, "I am")),
        ("validation", dialogues(3, "You are")),
        ("test", test),
    ):
        (folder / f"{split}.jsonl").write_text(content, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def trained_on_files(tiny: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its corpus beside it, in ``corpus``."""
    root = tmp_path_factory.mktemp("files")
    data = [
        f"data.path={corpus(root / 'corpus', dialogues(4, 'We are'))}",
        "trainer.max_steps=2",
        "trainer.log_every_n_steps=1",
    ]
    recipe = tiny(
        "transformer",
        "data.corpus={name: jsonl}",
        *data,
        "preflight=false",
        "generation.max_length=4",
    )
    return train(recipe, root / "run", quiet=True).folder


@pytest.fixture
def run(trained_on_files: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_on_files.parent, tmp_path / "files")) / "run"


def evaluated(run: Path, *overrides: str, name: str | None = None) -> Evaluated:
    return evaluate(dialog.load(run, overrides=overrides), "test", name=name, quiet=True)


def test_the_loaded_weights_are_named(run: Path) -> None:
    """A run that is still in training may replace the file meanwhile."""
    loaded = dialog.load(run)
    weights = run / "model.safetensors"
    before = sha256(weights)
    with safe_open(weights, "pt") as file:
        metadata = file.metadata()
    save_file({name: tensor + 1 for name, tensor in load_file(weights).items()}, weights, metadata)
    assert evaluate(loaded, "test", quiet=True).metrics["weights"] == before != sha256(weights)


def test_own_settings_have_the_folder_of_the_split(run: Path) -> None:
    """So has the same corpus in another place, and another number of tokens a batch."""
    folder, metrics = evaluated(run)
    assert folder == run / "evaluation" / "test"
    assert {**metrics["generation"], "search": {"name": "greedy"}, "max_length": 4} == metrics[
        "generation"
    ]
    assert metrics["data"]["corpus"] == {"name": "jsonl"}
    assert metrics["data"]["max_source"] == 128
    moved = shutil.move(run.parent / "corpus", run.parent / "moved")
    assert evaluated(run, f"data.path={moved}", "data.batch_tokens=300") == (folder, metrics)
    assert json.loads((folder / "metrics.json").read_text(encoding="utf-8")) == metrics
    assert [path.name for path in folder.parent.iterdir()] == ["test"]


def test_other_settings_keep_the_evaluation(run: Path) -> None:
    own = evaluated(run).folder
    before = {path: path.read_bytes() for path in own.iterdir()}
    folders = [
        evaluated(run, *overrides).folder.name
        for overrides in (
            ["generation.max_length=3"],
            ["generation.max_length=2"],
            ["data.context_turns=1"],
        )
    ]
    assert len(set(folders)) == 3
    assert all(folder.startswith("test-") for folder in folders)
    assert evaluated(run, "generation.max_length=3").folder.name == folders[0]
    assert {path: path.read_bytes() for path in own.iterdir()} == before


def test_other_data_keep_the_evaluation(run: Path) -> None:
    """Another corpus, one with a test split only, and the run's own corpus after a change."""
    own, metrics = evaluated(run)
    other = corpus(run.parent / "other", dialogues(2, "They are"))
    results = [evaluated(run, f"data.path={other}")]
    for split in ("train", "validation"):
        (other / f"{split}.jsonl").unlink()
    results.append(evaluated(run, f"data.path={other}"))
    assert results[1].metrics["data"]["fingerprint"] is None
    (run.parent / "corpus" / "test.jsonl").write_text(dialogues(5, "We are"), encoding="utf-8")
    results.append(evaluated(run, f"data.path={run.parent / 'corpus'}"))
    assert [result.metrics["examples"] for result in results] == [4, 4, 10]
    assert len({own, *(result.folder for result in results)}) == 4
    assert json.loads((own / "metrics.json").read_text(encoding="utf-8")) == metrics


def test_name_is_the_folder_and_is_taken_once(run: Path) -> None:
    short = "generation.max_length=3"
    assert evaluated(run, short, name="short").folder == run / "evaluation" / "test-short"
    assert evaluated(run, short, name="short").metrics["generation"]["max_length"] == 3
    with pytest.raises(
        UserError, match=r"--name short: .*test-short has an evaluation with other settings"
    ):
        evaluated(run, name="short")
    with pytest.raises(UserError, match=r"--name '\.\./x': use letters"):
        evaluated(run, name="../x")
