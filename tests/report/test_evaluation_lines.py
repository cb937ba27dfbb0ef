"""The metrics of an evaluation in a terminal."""

from __future__ import annotations

from typing import Any

from dialog.report.terminal import evaluation_lines

METRICS: dict[str, Any] = {
    "split": "test",
    "examples": 1200,
    "bits_per_byte": 1.25,
    "sacrebleu": {"score": 3.5, "signature": "tok:13a"},
    "lossless": False,
}
SUBSETS: dict[str, Any] = {
    "subsets": {
        "clean": {"examples": 1200, "bits_per_byte": 1.25, "sacrebleu": 3.5},
        "leaked": {"examples": 0},
    },
    "baselines": {
        "most_frequent": {"f1": 7.2, "length_mean": 3.0},
        "ngram_5": {"bits_per_byte": 1.321},
    },
}


def test_subsets_are_columns_and_references_are_rows() -> None:
    lines = list(evaluation_lines({**METRICS, **SUBSETS}))
    assert [line.split() for line in lines[:4]] == [
        ["all", "clean"],
        ["Bits", "per", "byte", "↓", "1.250", "1.250", "†"],
        ["sacreBLEU", "↑", "3.50", "3.50"],
        ["Examples", "1,200", "1,200"],
    ]
    assert lines[4] == ""
    heading, second, rule, frequent, ngram = lines[5].splitlines()
    assert second.split() == ["Reference", "byte", "F1", "sacreBLEU", "Distinct-2", "response"]
    assert rule == "-" * max(map(len, (heading, second)))
    assert len(rule) <= 80
    assert frequent.split() == ["most", "frequent", "7.20", "3.00"]
    assert ngram.split() == ["ngram", "5", "1.321"]
    assert frequent.index("7.20") + 4 == second.index("F1") + 2
    assert frequent.index("3.00") + 4 == len(second)
    assert lines[6].startswith("†: ")
    assert lines[7] == "sacreBLEU: tok:13a"


def test_one_column_without_a_training_split() -> None:
    lines = list(evaluation_lines({**METRICS, "lossless": True}))
    assert [line.split() for line in lines] == [
        ["Bits", "per", "byte", "↓", "1.250"],
        ["sacreBLEU", "↑", "3.50"],
        ["Examples", "1,200"],
        ["sacreBLEU:", "tok:13a"],
    ]
