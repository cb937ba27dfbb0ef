"""The statistics reproduce the values of an evaluation, on any subset."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dialog.analysis.measured import read_measured
from dialog.comparison.statistics.measured import Sums
from dialog.comparison.statistics.section import run_metrics, statistics_section
from dialog.report.tables import WHOLE_TEST_SET


def write_responses(path: Path, seed: int = 0) -> Path:
    draw = random.Random(seed)
    words = ["yes", "no", "fine", ",", "thanks", "you", "and", "?", "."]
    rows = [
        {
            "id": str(number),
            "dialogue_id": f"dialogue {number // 4}",
            "context": ["how are you ?"],
            "reference": "fine , thanks",
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
    section = statistics_section(
        {"a": runs[:2], "b": runs[2:]}, diverged={"a": (1, 3)}, resamples=500
    )
    assert section["statistics"] == {"level": 0.95, "resamples": 500, "seeds": {"a": 2, "b": 1}}
    assert [verdict["subset"] for verdict in section["verdicts"]] == ["all", "clean", "leaked"]
    assert section["verdict"].startswith(
        "b has one run, so this is about that run and the architecture a."
    )
    assert "1 of 3 runs of a diverged." in section["verdict"]
    metrics = [record["metric"] for record in section["differences"] if record["subset"] == "clean"]
    assert metrics[0] == "bits_per_byte"
    assert {"f1", "distinct_2", "length_mean"} <= {*metrics}
    assert "nll_nats" not in metrics
    assert (
        json.loads(json.dumps(section))["differences"][0].keys() == section["differences"][0].keys()
    )


def test_a_subset_with_all_dialogues_has_no_verdict_of_its_own(tmp_path: Path) -> None:
    clean = np.zeros(60, dtype=np.bool_)
    runs = [
        replace(read_measured(write_responses(tmp_path / f"{seed}.jsonl", seed)), leaked=clean)
        for seed in (0, 1)
    ]
    section = statistics_section({"a": runs[:1], "b": runs[1:]}, resamples=100)
    assert [verdict["subset"] for verdict in section["verdicts"]] == ["all"]
    assert section["verdict"].splitlines()[1:] == [WHOLE_TEST_SET["clean"]]
    of_subset = {
        subset: [
            {**record, "subset": ""}
            for record in section["differences"]
            if record["subset"] == subset
        ]
        for subset in ("all", "clean", "leaked")
    }
    assert of_subset["clean"] == of_subset["all"]
    assert of_subset["leaked"] == []


def test_a_subset_of_few_dialogues_has_one_sentence(tmp_path: Path) -> None:
    leaked = np.arange(60) >= 20  # 5 clean dialogues of 4 responses
    runs = [
        replace(read_measured(write_responses(tmp_path / f"{seed}.jsonl", seed)), leaked=leaked)
        for seed in (0, 1)
    ]
    section = statistics_section({"a": runs[:1], "b": runs[1:]}, resamples=100)
    assert [verdict["text"] for verdict in section["verdicts"] if verdict["subset"] == "clean"] == [
        "No metric is tested: fewer than 6 dialogues."
    ]
    assert (
        "Clean subset: No metric is tested: fewer than 6 dialogues."
        in section["verdict"].splitlines()
    )


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
        section = statistics_section({"a": [plain], "b": [other]}, resamples=100)
        methods = {record["metric"]: record["method"] for record in section["differences"]}
        assert methods["bits_per_byte"].startswith("paired jackknife")
        for metric in ("perplexity_token", "token_accuracy"):
            assert methods[metric].startswith("not tested") == bool(reason)
            assert reason in methods[metric]
        assert ("token accuracy: not tested: the tokenizers differ" in section["verdict"]) == bool(
            reason
        )
        values = [
            r["difference"] for r in section["differences"] if r["metric"] == "perplexity_token"
        ]
        assert (values == [None]) == bool(reason)
