"""The statistics reproduce the values of an evaluation, on any subset."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dialog.analysis.measured import Measured, read_measured
from dialog.comparison.decisions.family import NullHypothesis
from dialog.comparison.decisions.looks import Look
from dialog.comparison.statistics.measured import Sums
from dialog.comparison.statistics.section import DecisionPlan, run_metrics, statistics_section
from dialog.comparison.statistics.verdict import EvaluationSet
from dialog.errors import UserError
from dialog.report.formats.results import StatisticsSettings
from dialog.report.tables import WHOLE_TEST_SET


def write_responses(path: Path, seed: int = 0, nats: float = 0.0) -> Path:
    draw = random.Random(seed)
    words = ["yes", "no", "fine", ",", "thanks", "you", "and", "?", "."]
    rows = [
        {
            "id": str(number),
            "dialogue_id": f"dialogue {number // 4}",
            "context": ["how are you ?"],
            "reference": "fine , thanks",
            "response": " ".join(draw.choices(words, k=draw.randint(1, 8))),
            "nll": nats + draw.uniform(5, 20),
            "reference_tokens": 7,
            "reference_correct": draw.randint(0, 7),
        }
        for number in range(60)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def section_of(
    runs: dict[str, list[Measured]], plan: DecisionPlan | None = None, **options: Any
) -> dict[str, Any]:
    seeds = {name: range(len(measured)) for name, measured in runs.items()}
    test_set = EvaluationSet("dailydialog", examples=60, dialogues=15)
    return statistics_section(
        runs, plan or DecisionPlan("bits_per_byte"), seeds, test_set=test_set, **options
    )


@pytest.mark.parametrize("count", [60, 23])
def test_values_are_those_of_the_evaluation(tmp_path: Path, count: int) -> None:
    measured = read_measured(write_responses(tmp_path / "responses.jsonl"))
    examples = np.arange(60) < count
    expected = measured.measurement.values_of(examples)
    metrics = {key: metric.restrict(examples) for key, metric in run_metrics(measured).items()}
    assert {"f1", "distinct_1", "bits_per_byte", "sacrebleu"} <= metrics.keys()
    assert {key: metric.value() for key, metric in metrics.items()} == pytest.approx(
        expected, rel=1e-12, nan_ok=True
    )
    assert {metric.dialogues for metric in metrics.values()} == {-(-count // 4)}


def test_all_metrics_take_arrays(tmp_path: Path) -> None:
    metrics = run_metrics(read_measured(write_responses(tmp_path / "responses.jsonl")))
    once = np.ones((3, 15))
    for metric in metrics.values():
        if isinstance(metric, Sums):
            assert Sums.resamples([metric])(once)[0] == pytest.approx(
                [metric.value()] * 3, nan_ok=True
            )
        assert metric.swaps([(metric, metric)])(once)[0] == pytest.approx([0.0] * 3, nan_ok=True)
        assert len(metric.leave_one_out()) == 15


def test_the_section_of_results_json(tmp_path: Path) -> None:
    leaked = np.arange(60) >= 40
    runs = [
        replace(read_measured(write_responses(tmp_path / f"{seed}.jsonl", seed)), leaked=leaked)
        for seed in range(3)
    ]
    section = section_of(
        {"a": runs[:2], "b": runs[2:]}, DecisionPlan("f1"), diverged={"a": (1, 3)}, resamples=500
    )
    assert section.statistics == StatisticsSettings(0.95, 500, 1, {"a": 2, "b": 1})
    assert section.primary == "f1"
    assert section.verdict.startswith("On DailyDialog's test split (60 responses in 15 dia")
    assert "b was trained once" in section.verdict
    assert section.verdict.splitlines()[1:] == ["1 of 3 runs of a diverged."]
    tested = {(r.metric, r.subset) for r in section.differences if r.p is not None}
    assert {("f1", "clean"), ("bits_per_byte", "all")} <= tested
    assert not {("bits_per_byte", "clean"), ("perplexity_word", "all"), ("bleu_4", "all")} & tested
    (look,) = section.looks
    assert look.seeds == {"a": (0, 1), "b": (0,)}
    assert {(test.metric, test.subset) for test in look.tests} == tested
    assert [entry.name for entry in section.ranking["f1"]] in (["a", "b"], ["b", "a"])
    metrics = [record.metric for record in section.differences if record.subset == "clean"]
    assert metrics[:2] == ["f1", "bits_per_byte"], "the primary one first"
    assert {"f1", "distinct_2", "length_mean"} <= {*metrics}
    assert "nll_nats" not in metrics


def test_a_subset_with_all_dialogues_has_no_verdict_of_its_own(tmp_path: Path) -> None:
    clean = np.zeros(60, dtype=np.bool_)
    runs = [
        replace(read_measured(write_responses(tmp_path / f"{seed}.jsonl", seed)), leaked=clean)
        for seed in (0, 1)
    ]
    section = section_of({"a": runs[:1], "b": runs[1:]}, resamples=100)
    assert section.verdict.splitlines()[1:] == [WHOLE_TEST_SET["clean"]]
    of_subset = {
        subset: [
            replace(record, subset="") for record in section.differences if record.subset == subset
        ]
        for subset in ("all", "clean", "leaked")
    }
    assert of_subset["clean"] == of_subset["all"]
    assert of_subset["leaked"] == []


def test_missing_runs_and_late_looks_decide_nothing(tmp_path: Path) -> None:
    runs = [
        read_measured(write_responses(tmp_path / f"{seed}.jsonl", seed, nats=20.0 * (seed // 2)))
        for seed in range(4)
    ]
    systems = {"a": runs[:2], "b": runs[2:]}
    (first,) = [r for r in section_of(systems).differences if r.metric == "bits_per_byte"]
    assert first.decided
    missing = section_of(systems, missing=["a"])
    assert not any(r.decided for r in missing.differences)
    assert missing.looks == ()
    assert "Runs of a are missing" in missing.verdict
    test = NullHypothesis("a", "b", "bits_per_byte")
    earlier = Look("", {"a": [7, 8], "b": [7, 8]}, {test: 0.4})
    late = section_of(systems, DecisionPlan("bits_per_byte", 1, [earlier]))
    (bits,) = [r for r in late.differences if r.metric == "bits_per_byte"]
    assert (bits.interval, bits.p) == (first.interval, first.p)
    assert (bits.p_holm, bits.decided) == (0.4, False)
    assert len(late.looks) == 2
    assert "1 look was planned" in late.verdict
    (planned,) = [
        r
        for r in section_of(systems, DecisionPlan("bits_per_byte", 2, [earlier])).differences
        if r.metric == "bits_per_byte"
    ]
    assert planned.p_holm == pytest.approx(2 * planned.p)


def test_a_contender_without_the_primary_metric(tmp_path: Path) -> None:
    runs = [read_measured(write_responses(tmp_path / f"{seed}.jsonl", seed)) for seed in (0, 1)]
    with pytest.raises(UserError, match=r"a and b: .*hits_1_of_20"):
        section_of({"a": runs[:1], "b": runs[1:]}, DecisionPlan("hits_1_of_20"))


def test_metrics_per_token_need_one_tokenizer(tmp_path: Path) -> None:
    """Two systems whose references have other numbers of tokens, or of unknown ones, are compared
    per byte only.
    """
    plain, longer, unknown = (
        read_measured(write_responses(tmp_path / f"{seed}.jsonl", seed)) for seed in range(3)
    )
    longer = replace(
        longer, rows=[{**row, "reference_tokens": 7 + (row["id"] == "59")} for row in longer.rows]
    )
    unknown = replace(
        unknown, rows=[{**row, "reference_unknown": int(row["id"] == "3")} for row in unknown.rows]
    )
    for other, reason in (
        (plain, ""),
        (longer, "the tokenizers differ"),
        (unknown, "the tokenizers differ"),
    ):
        section = section_of({"a": [plain], "b": [other]}, resamples=100)
        methods = {record.metric: record.method for record in section.differences}
        assert methods["bits_per_byte"].startswith("paired jackknife")
        for metric in ("perplexity_token", "token_accuracy"):
            assert methods[metric].startswith("not tested") == bool(reason)
            assert reason in methods[metric]
        values = [r.difference for r in section.differences if r.metric == "perplexity_token"]
        assert (values == [None]) == bool(reason)
