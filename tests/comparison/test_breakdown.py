"""Breakdown by buckets, by hand."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from dialog.analysis.buckets import TrainingText
from dialog.analysis.measured import Measured, read_measured
from dialog.comparison.breakdown import breakdown
from dialog.report.formats.results import ExactShare

BIT = math.log(2)
EXAMPLES: list[dict[str, Any]] = [
    {"id": "d#1", "context": ["hi"], "reference": "good cat"},
    {"id": "d#2", "context": ["hi", "ho"], "reference": "good"},
    {"id": "e#1", "context": ["hi"], "reference": "one two three four"},
]


def responses(path: Path, answers: list[str], bits: list[float] | None) -> Measured:
    """A responses.jsonl; every reference has 10 bytes, that of e#1 one unknown."""
    with path.open("w", encoding="utf-8") as file:
        for place, (example, answer) in enumerate(zip(EXAMPLES, answers, strict=True)):
            row = {**example, "response": answer}
            if bits is not None:
                row |= {
                    "nll": bits[place] * BIT,
                    "reference_bytes": 10,
                    "reference_unknown_bytes": int(place == 2),
                }
            file.write(json.dumps(row) + "\n")
    return read_measured(path)


@pytest.fixture
def evaluations(tmp_path: Path) -> dict[str, list[Measured]]:
    """A has two runs; B is a file of another system."""
    first = responses(tmp_path / "1.jsonl", ["cat", "good", "x"], [10, 20, 32])
    second = responses(tmp_path / "2.jsonl", ["cat", "bad", "x"], [30, 40, 32])
    return {
        "A": [first, second],
        "B": [responses(tmp_path / "b.jsonl", ["good cat", "good", "one"], None)],
    }


def table(rows: list[dict[str, Any]]) -> dict[str, dict[str, tuple[int, float, Any, float, float]]]:
    return {
        row.by: {
            bucket.label: (
                bucket.examples,
                *bucket.values.values(),
                *bucket.f1.values(),
            )
            for bucket in row.buckets
        }
        for row in rows
    }


def test_breakdown_by_hand(evaluations: dict[str, list[Measured]]) -> None:
    """One word of two in common: F1 2/3; an unknown byte costs 8 bits more."""
    result = table(
        breakdown(
            evaluations,
            TrainingText(Counter(good=200, cat=5, one=12, two=40, three=10), longest_context=1),
            {"e#1": "ask"},
        )
    )
    assert list(result) == [
        "context turns",
        "context words",
        "context length",
        "response words",
        "rarest word",
        "act",
    ]
    approx = pytest.approx
    assert result["context turns"] == {
        "1": (2, approx((10 + 40 + 30 + 40) / 40), None, approx(100 / 3), approx((100 + 40) / 2)),
        "2": (1, approx(3.0), None, approx(50), approx(100)),
    }
    assert [row[0] for row in result["context length"].values()] == [2, 1]  # d#2 reads two words
    assert {label: row[0] for label, row in result["response words"].items()} == {
        "1-3": 2,
        "4-7": 1,
    }
    assert result["rarest word"]["0"] == (1, approx(4.0), None, 0, approx(40))
    assert {label: row[:2] for label, row in result["rarest word"].items() if label != "0"} == {
        "1-9": (1, approx(2.0)),
        "100+": (1, approx(3.0)),
    }
    assert result["act"] == {"ask": (1, approx(4.0), None, 0, approx(40))}


def test_likelihood_of_another_system_needs_no_bytes(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text(
        "".join(json.dumps({**row, "response": "x", "nll": 16 * BIT}) + "\n" for row in EXAMPLES),
        "utf-8",
    )
    buckets = table(breakdown({"C": [read_measured(path)]}))["context turns"]
    assert buckets["2"] == (1, pytest.approx(16 / len("good")), 0)
    assert buckets["1"] == (2, pytest.approx(32 / len("good cat" + "one two three four")), 0)


def test_unknown_properties_are_left_out(evaluations: dict[str, list[Measured]]) -> None:
    assert list(table(breakdown(evaluations))) == [
        "context turns",
        "context words",
        "response words",
    ]
    assert breakdown({"A": []}) == ()


def test_exact_responses_by_length_of_the_context(evaluations: dict[str, list[Measured]]) -> None:
    (part,) = (part for part in breakdown(evaluations) if part.by == "context words")
    (bucket,) = part.buckets
    assert bucket.label == "0-7"
    assert bucket.exact["A"] == ExactShare(pytest.approx(1 / 6), pytest.approx(0.5**0.5 / 3))
    assert bucket.exact["B"] == ExactShare(pytest.approx(2 / 3), None)
