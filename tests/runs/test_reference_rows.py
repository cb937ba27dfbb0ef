"""Reference rows and subsets in the files of an evaluation."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

import dialog
from dialog.runs.evaluation.evaluate import evaluate
from dialog.runs.train import train

LEAK = ["Where is it , sir ?", "It is behind the bank .", "Thank you ."]
SPLITS = {
    "train": [LEAK, *(["Hello .", f"I am number {number} .", "Bye ."] for number in range(7))],
    "validation": [["Hello .", "You are here .", "Bye ."]],
    "test": [["Hello .", "I am number nine .", "Bye ."], ["Well .", *LEAK]],
}


def write_corpus(folder: Path) -> Path:
    folder.mkdir()
    for split, dialogues in SPLITS.items():
        rows = [
            {"id": f"{split}-{number}", "turns": turns} for number, turns in enumerate(dialogues)
        ]
        (folder / f"{split}.jsonl").write_text(
            "".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8"
        )
    return folder


@pytest.fixture(scope="module")
def trained_on_leaks(tiny: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("leaks")
    data = [
        "data.corpus={name: jsonl}",
        f"data.path={write_corpus(root / 'corpus')}",
        "preflight=false",
    ]
    recipe = tiny(
        "transformer",
        *data,
        "trainer.max_steps=2",
        "trainer.log_every_n_steps=1",
        "generation.max_length=4",
    )
    return train(recipe, root / "run", quiet=True).folder


def test_subsets_are_parts_of_the_whole(trained_on_leaks: Path) -> None:
    folder, metrics = evaluate(dialog.load(trained_on_leaks), "test", quiet=True)
    assert json.loads((folder / "metrics.json").read_text(encoding="utf-8")) == metrics
    clean, leaked = metrics["subsets"]["clean"], metrics["subsets"]["leaked"]
    assert (clean["examples"], clean["dialogues"]) == (2, 1)
    assert (leaked["examples"], leaked["dialogues"]) == (3, 1)
    assert clean["nll_nats"] + leaked["nll_nats"] == pytest.approx(metrics["nll_nats"])
    assert 2 * clean["f1"] + 3 * leaked["f1"] == pytest.approx(5 * metrics["f1"])
    assert {"bits_per_byte", "sacrebleu", "distinct_2", "unique_ratio"} <= clean.keys()
    rows = metrics["baselines"], clean["baselines"], leaked["baselines"]
    assert [row["human"]["f1"] for row in rows] == [100, 100, 100]
    assert leaked["baselines"]["nearest"]["f1"] > leaked["baselines"]["nearest_clean"]["f1"]
    assert clean["baselines"].keys() == leaked["baselines"].keys() == metrics["baselines"].keys()


def test_examples_of_leaked_dialogues_are_marked(trained_on_leaks: Path) -> None:
    folder = evaluate(dialog.load(trained_on_leaks), "test", quiet=True).folder
    marks = load_file(folder / "statistics.safetensors")["leaked"]
    assert marks.dtype == np.uint8
    assert marks.tolist() == [0, 0, 1, 1, 1]


def test_rows_do_not_depend_on_the_model(trained_on_leaks: Path) -> None:
    run = dialog.load(trained_on_leaks)
    other = dialog.load(trained_on_leaks, overrides=["generation.max_length=2"])
    assert (
        evaluate(run, "test", quiet=True).metrics["baselines"]
        == (evaluate(other, "test", quiet=True).metrics["baselines"])
    )


def test_a_run_folder_without_its_training_split(
    trained_on_leaks: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another machine without the corpus: metrics and responses are written, reference rows and
    subsets are not.
    """
    corpus = Path(shutil.copytree(trained_on_leaks.parent / "corpus", tmp_path / "corpus"))
    (corpus / "train.jsonl").unlink()
    with caplog.at_level(logging.WARNING, "dialog"):
        evaluated = evaluate(
            dialog.load(trained_on_leaks, overrides=[f"data.path={corpus}"]), "test", quiet=True
        )
    assert [record.getMessage()[:16] for record in caplog.records] == [
        "no reference row",
        "train_copy_ratio",
    ]
    assert "train.jsonl" in caplog.text
    assert not {"subsets", "baselines"} & evaluated.metrics.keys()
    assert "leaked" not in load_file(evaluated.folder / "statistics.safetensors")
    assert evaluated.metrics["examples"] == 5
