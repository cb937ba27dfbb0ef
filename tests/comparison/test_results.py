from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dialog.analysis.measured import Measured, read_measured
from dialog.comparison.results.attention import SeedReading, choose_examples, within_limit
from dialog.comparison.results.content import clock_warnings, empty_warnings, metric_warnings
from dialog.comparison.results.samples import disagreements, draw_samples
from dialog.comparison.results.systems import (
    FinishedRun,
    System,
    learning_curve,
    summarize,
    with_values,
)
from dialog.escaping import to_json
from dialog.metrics import Measurement
from dialog.metrics.likelihood import Hits
from dialog.report.formats.results import RunResults, SeedMean, ShownExample


def rows(*responses: str, nll: float = 1.0) -> list[dict[str, Any]]:
    """Lines of a responses.jsonl with as many examples as responses; every second has a context."""
    return [
        {
            "id": str(n),
            "context": ["Hi"] * (n % 2),
            "reference": "a b c d",
            "response": response,
            "nll": nll * n,
        }
        for n, response in enumerate(responses)
    ]


def test_samples_have_a_context_if_any_has_one() -> None:
    assert {sample.id for sample in draw_samples([rows(*"abcd")])} == {"1", "3"}
    without = [{**row, "context": []} for row in rows(*"abcd")]
    assert [sample.id for sample in draw_samples([without])] == ["0", "1", "2", "3"]


def test_examples_that_differ_most() -> None:
    """Two in which the second contender is better, then two in which the first is."""
    first, second = rows(*"abcdef"), rows(*"abcdef", nll=0.5)
    for place in (0, 2, 4):
        first[place]["nll"], second[place]["nll"] = 0.0, place + 1.0
    chosen = disagreements([first, second], count=4)
    assert [sample.id for sample in chosen] == ["4", "2", "5", "3"]
    assert chosen[0].bits_per_byte == (0.0, pytest.approx(5 / math.log(2) / 7))
    without = [{key: row[key] for key in row if key != "nll"} for row in first]
    assert disagreements([without, first, second], count=1)[0].bits_per_byte == (
        None,
        *chosen[0].bits_per_byte,
    )
    assert (
        disagreements([first, [{**row, "nll": 0.0} for row in second[:-1]] + [{"id": "5"}]]) == ()
    )


def test_failed_metrics_are_warnings() -> None:
    """Metrics that were not measured for another reason are none."""

    def system(name: str, *reasons: str) -> System:
        runs = [
            RunResults(1, metrics={"left_out": {"Own": reason, "hits_1_of_20": "not ranked"}})
            for reason in reasons
        ]
        measured: Any = object()
        contender: Any = SimpleNamespace(name=name)
        evaluated: Any = None
        return System(
            contender, evaluated, [FinishedRun(Path(), run, None, measured) for run in runs]
        )

    assert metric_warnings(
        [system("a", "failed (E: x)", "failed (E: x)"), system("b", "failed (E: x)")]
    ) == ["Own failed (E: x); it is left out for a, b."]


def test_shown_values_are_those_of_the_statistics(trained: Callable[[str], Path]) -> None:
    """Bit for bit those of metrics.json, unless it was edited."""
    folder = trained("lstm") / "evaluation" / "test"
    measured = read_measured(folder)
    metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
    assert with_values(metrics, measured) == metrics
    clean = {**metrics["subsets"]["clean"], "f1": 99.0}
    sacrebleu = {**metrics["sacrebleu"], "score": 99.0}
    edited = {
        "bits_per_byte": 0.5,
        "sacrebleu": sacrebleu,
        "subsets": {**metrics["subsets"], "clean": clean},
    }
    assert with_values({**metrics, **edited, "fingerprint": "other"}, measured) == metrics
    unranked = [{**row, "candidate_rank": None} for row in measured.rows]
    measurement = Measurement({"hits_1_of_20": Hits()})
    measurement.add(unranked)
    assert "hits_1_of_20" not in with_values({"hits_1_of_20": 0.9}, Measured(unranked, measurement))


def test_numbers_that_are_not_finite_are_null() -> None:
    read = json.loads(to_json({"a": [float("nan"), 1.5], "b": {"c": float("-inf"), "d": "NaN"}}))
    assert read == {"a": [None, 1.5], "b": {"c": None, "d": "NaN"}}


def test_undefined_values_have_no_mean() -> None:
    """Of an evaluation of an older version: a metric of a subset was NaN in memory, and null in its
    file.
    """
    for undefined in (math.nan, math.inf, None):
        runs = [{"f1": 1.0, "hits_1_of_20": undefined}, {"f1": 3.0, "hits_1_of_20": undefined}]
        assert summarize(runs) == {"f1": SeedMean(2.0, pytest.approx(math.sqrt(2)), 2)}


def test_attention_is_shown_for_short_references() -> None:
    samples = [
        ShownExample(str(place), ("Hi",) * turns, "word " * words, ())
        for place, (turns, words) in enumerate([(2, 5), (9, 40), (3, 5), (1, 5), (4, 20)])
    ]
    assert [sample.id for sample in choose_examples(samples)] == ["4", "2", "0", "3"]


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        (99, [(0, 0), (1, 0), (0, 0), (1, 0), (0, 1), (1, 1)]),
        (50, [(0, 0), (1, 0), (0, 0), (1, 0)]),
        (39, [(0, 0), (0, 0)]),
        (1, [(0, 0), (0, 0)]),
    ],
)
def test_maps_of_later_seeds_and_examples_are_left_out(
    limit: int, kept: list[tuple[int, int]]
) -> None:
    """Two models with two seeds on two examples, but the second model has one run."""
    readings = [
        SeedReading(example, rank, {"model": model}, 10)
        for model, ranks in (("a", 2), ("b", 1))
        for rank in range(ranks)
        for example in range(2)
    ]
    assert [(reading.example, reading.rank) for reading in within_limit(readings, limit)] == kept


def test_target_tokens_of_validations_are_interpolated(tmp_path: Path) -> None:
    """Tokens are logged at steps 2 and 4, validations come at 3 and 5; training ended at step 5."""
    lines: list[dict[str, Any]] = [
        {"step": 2, "train/loss": 1.0, "train/tokens": 100.0},
        {"step": 3, "validation/bits_per_byte": 2.0},
        {"step": 4, "train/loss": 1.0, "train/tokens": 220.0},
        {"step": 4, "lr": 1.0},
        {"step": 5, "validation/bits_per_byte": 1.0},
    ]
    content = "".join(
        json.dumps({"epoch": 0, "time": line["step"] * 2.0, **line}) + "\n" for line in lines
    )
    (tmp_path / "metrics.jsonl").write_text(content, encoding="utf-8")
    assert [point.target_tokens for point in learning_curve(tmp_path)] == [100, 160, 220, 220]
    summary = {"seconds": 10.0, "steps": 5, "target_tokens": 290}
    (tmp_path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    points = learning_curve(tmp_path)
    assert [point.target_tokens for point in points] == [100, 160, 220, 290]
    assert [point.bits_per_byte for point in points] == [None, 2.0, None, 1.0]


def test_many_empty_responses_are_a_warning() -> None:
    """Over all runs of a contender; a run that diverged has none."""

    def system(name: str, *runs: Any) -> Any:
        measured = [SimpleNamespace(measured=run) for run in runs]
        return SimpleNamespace(name=name, runs=measured)

    full = SimpleNamespace(rows=rows(*"abcdefghij"))
    blank = SimpleNamespace(rows=rows("", " ", *"cdefghij"))
    (line,) = empty_warnings([system("fine", full, blank), system("bad", blank, None)])
    assert "bad: 2 of 10 " in line


def test_trainings_that_the_clock_ended_are_a_warning() -> None:
    """The load of the machine would decide unnoticed; runs within the limit, or without one, are
    fine.
    """

    def system(name: str, limit: Any, *seconds: float | None) -> Any:
        runs = [SimpleNamespace(entry=SimpleNamespace(seconds=spent)) for spent in seconds]
        recipe = SimpleNamespace(trainer=SimpleNamespace(max_time=limit))
        return SimpleNamespace(name=name, runs=runs, evaluated=SimpleNamespace(recipe=recipe))

    systems = [
        system("free", None, 300.0),
        system("fast", {"minutes": 2}, 110.0, 60.0),
        system("slow", "00:00:02:00", 121.0, 119.0, None),
    ]
    (line,) = clock_warnings(systems)
    assert "slow: " in line
    assert "1 of 3" in line
