"""The statistics reproduce the values of an evaluation, on any subset."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest

from dialog.analysis.measured import read_measured
from dialog.comparison.statistics.evaluated import run_metrics


def write_responses(path: Path) -> Path:
    draw = random.Random(0)
    words = ["yes", "no", "fine", ",", "thanks", "you", "and", "?", "."]
    rows = [
        {
            "id": str(number),
            "dialogue_id": f"dialogue {number // 4}",
            "context": ["how are you ?"],
            "reference": " ".join(draw.choices(words, k=6)),
            "response": " ".join(draw.choices(words, k=draw.randint(1, 8))),
            "nll": draw.uniform(5, 20),
            "reference_tokens": 7,
            "reference_correct": draw.randint(0, 7),
        }
        for number in range(60)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.parametrize("count", [60, 23])
def test_values_are_those_of_the_evaluation(tmp_path: Path, count: int) -> None:
    measured = read_measured(write_responses(tmp_path / "responses.jsonl"))
    examples = np.arange(60) < count
    expected = measured.measurement.values_of(examples)
    metrics = {key: metric.restrict(examples) for key, metric in run_metrics(measured).items()}
    assert {"f1", "distinct_1", "bits_per_byte", "sacrebleu"} <= metrics.keys()
    assert {key: metric.value() for key, metric in metrics.items()} == pytest.approx(expected, rel=1e-12, nan_ok=True)
    assert {metric.dialogues for metric in metrics.values()} == {-(-count // 4)}


def test_all_metrics_can_be_resampled(tmp_path: Path) -> None:
    metrics = run_metrics(read_measured(write_responses(tmp_path / "responses.jsonl")))
    once = np.ones((3, 15))
    for metric in metrics.values():
        assert metric.resample(once) == pytest.approx([metric.value()] * 3, nan_ok=True)
        assert metric.swap(metric, once) == pytest.approx([0.0] * 3, nan_ok=True)
        assert len(metric.leave_one_out()) == 15
