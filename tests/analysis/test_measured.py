"""Statistics of each response: written by an evaluation, and computed from a responses.jsonl of any
system.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from dialog.analysis.measured import read_measured
from dialog.errors import UserError
from dialog.metrics.measurement import results

CORPUS_METRICS = {"alignment_accuracy", "answer_accuracy"}
"""They need the answers and alignments of the corpus, so a file of responses alone does not have
them.
"""
PLAIN = ("id", "dialogue_id", "context", "reference", "response")


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def evaluation(trained: Callable[[str], Path]) -> Path:
    return trained("lstm") / "evaluation" / "test"


def test_an_evaluation_writes_the_statistics_of_each_response(evaluation: Path) -> None:
    rows, metrics = (
        lines(evaluation / "responses.jsonl"),
        json.loads((evaluation / "metrics.json").read_text()),
    )
    with safe_open(evaluation / "statistics.safetensors", framework="numpy") as file:
        assert json.loads(file.metadata()["metrics"])["metrics"]["bleu_2"] == {
            "name": "bleu",
            "n": 2,
        }
        bits, f1 = file.get_tensor("bits_per_byte"), file.get_tensor("f1")
    assert bits.dtype == np.float64
    assert bits.tolist() == [
        [row["nll"], row["reference_bytes"], row["reference_unknown_bytes"]] for row in rows
    ]
    assert metrics["f1"] == pytest.approx(100 * f1[:, 0].mean())


def test_values_of_an_evaluation_are_read_back(evaluation: Path, tmp_path: Path) -> None:
    """From its statistics, or from its responses alone, bit for bit; and of a subset."""
    metrics = json.loads((evaluation / "metrics.json").read_text())
    alone = write(tmp_path / "other.jsonl", lines(evaluation / "responses.jsonl"))
    for path in (evaluation, alone):
        measured = read_measured(path)
        values = results(measured.measurement)
        assert values["left_out"] == {}
        assert {name: metrics[name] for name in values} == values
        assert measured.fingerprint == metrics["fingerprint"]
        assert len(np.unique(measured.dialogues)) == metrics["dialogues"]
        rows = np.arange(len(measured.rows)) % 2 == 0
        half = write(
            tmp_path / "half.jsonl",
            [row for row, chosen in zip(measured.rows, rows, strict=True) if chosen],
        )
        expected = results(read_measured(half).measurement)
        subset = measured.measurement.values_of(rows)
        assert set(subset) - set(expected) == (CORPUS_METRICS if path == evaluation else set())
        for name, value in subset.items():
            if name in CORPUS_METRICS:
                continue
            assert value == (expected[name]["score"] if name == "sacrebleu" else expected[name]), (
                name
            )


def test_another_system_without_likelihood(evaluation: Path, tmp_path: Path) -> None:
    rows = [{key: row[key] for key in PLAIN} for row in lines(evaluation / "responses.jsonl")]
    measured = read_measured(write(tmp_path / "other.jsonl", rows))
    values = results(measured.measurement)
    assert values["left_out"]["bits_per_byte"] == "the responses have no nll"
    assert "bits_per_byte" not in values
    assert values["f1"] == json.loads((evaluation / "metrics.json").read_text())["f1"]
    with_nll = [{**row, "nll": 2.0} for row in rows]
    bits = results(read_measured(write(tmp_path / "nll.jsonl", with_nll)).measurement)[
        "bits_per_byte"
    ]
    assert bits == pytest.approx(
        2 * len(rows) / np.log(2) / sum(len(row["reference"].encode()) for row in rows)
    )


ROW = {"id": "a", "context": ["hi"], "reference": "hello", "response": "yes"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([ROW, ROW], "other.jsonl:2: id 'a' is also in line 1"),
        ([{**ROW, "context": "hi"}], 'other.jsonl:1: context is "hi"; give a list of strings'),
        ([{**ROW, "response": None}], "other.jsonl:1: response is null; give a string"),
        ([{"id": "a", "context": []}], "other.jsonl:1: no reference; each line needs id"),
        (
            [ROW, {**ROW, "id": "b", "nll": 1.0}],
            "other.jsonl:2: 'nll' is missing here or in line 1",
        ),
        ([], "other.jsonl: no responses"),
    ],
)
def test_invalid_responses_are_user_errors(
    tmp_path: Path, rows: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read_measured(write(tmp_path / "other.jsonl", rows))


def test_statistics_of_other_responses_are_rejected(evaluation: Path, tmp_path: Path) -> None:
    folder = tmp_path / "evaluation"
    folder.mkdir()
    write(folder / "responses.jsonl", lines(evaluation / "responses.jsonl")[1:])
    statistics = (evaluation / "statistics.safetensors").read_bytes()
    (folder / "statistics.safetensors").write_bytes(statistics)
    with pytest.raises(UserError, match=r"statistics.safetensors: not of the"):
        read_measured(folder)
    (folder / "statistics.safetensors").write_bytes(statistics[:-8])
    with pytest.raises(UserError, match=r"statistics.safetensors: damaged"):
        read_measured(folder)
