"""Crossing learning curves and costs, by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from dialog.comparison.cost import cost, seconds_to_common_value
from dialog.comparison.curves import crossings
from dialog.report.formats.results import Cost, CurvePoint, ModelResults, RunResults, TimeToValue


def model(name: str, *curves: list[tuple[float, float]], rate: float | None = None) -> ModelResults:
    """A model whose curves are pairs of seconds and bits per byte; 1,000 target tokens a second."""
    runs = (
        RunResults(
            None,
            curve=tuple(
                CurvePoint(0, 0, 1000 * seconds, seconds, None, value) for seconds, value in curve
            ),
        )
        for curve in curves
    )
    return ModelResults(name, "recipe", runs=tuple(runs), flops_per_target_token=rate)


def texts(*models: ModelResults) -> dict[str, str]:
    return {row.axis: row.text for row in crossings(models)}


def test_crossing_by_hand() -> None:
    """A falls from 3 to 1 in 40 s, B from 2.6 to 1.8: 3 - t/20 = 2.6 - t/50 at t = 40/3."""
    a, b = [
        model(name, curve, curve)
        for name, curve in (("A", [(0, 3), (40, 1)]), ("B", [(0, 2.6), (40, 1.8)]))
    ]
    assert texts(a, b) == {
        "target_tokens": "Per target token, B is ahead of A until 13,300 tokens, then A is ahead.",
        "seconds": "Per second, B is ahead of A until 13 s, then A is ahead.",
    }


def test_only_curves_with_two_leaders_cross() -> None:
    a, b = model("A", [(0, 3), (40, 1)]), model("B", [(0, 2.6), (40, 1.8)])
    below, beside = model("C", [(0, 2), (40, 0.5)]), model("D", [(50, 2), (60, 0.5)])
    crossing = {(row.a, row.b): row.crosses for row in crossings([a, b, below, beside])}
    assert [pair for pair, crosses in crossing.items() if crosses] == [("A", "B")]
    assert len(crossing) == 6


def test_axes_differ() -> None:
    """A token of A costs four times the FLOPs of B's: with x in GFLOPs, 2 - x/16 = 2.5 - 3x/8
    at x = 1.6.
    """
    a = model("A", [(0, 2), (4, 1)], [(0, 2.1), (4, 1.1)], rate=4e6)
    b = model("B", [(0, 2.5), (16, 1.5)], [(0, 2.6), (16, 1.6)], rate=1e6)
    assert texts(a, b)["seconds"] == "Per second, A is ahead of B throughout."
    assert texts(a, b)["flops"] == "Per FLOP, A is ahead of B throughout."
    a = model("A", [(0, 2), (4, 1)], rate=4e6)
    b = model("B", [(0, 2.5), (4, 1.001)], rate=1e6)
    assert (
        texts(a, b)["seconds"]
        == "Per second, A is ahead of B throughout (number of runs: 1 and 1)."
    )
    expected = (
        "Per FLOP, A is ahead of B until 1.60 GFLOPs, then B is ahead (number of runs: 1 and 1)."
    )
    assert texts(a, b)["flops"] == expected


def test_overlapping_seeds_are_not_distinguishable() -> None:
    """The ranges of A, [1, 1.2] at the end, and of B, [1.1, 1.3], overlap from 0 on."""
    a, b = (
        model("A", [(0, 2), (10, 1)], [(0, 2), (10, 1.2)]),
        model("B", [(0, 2), (10, 1.1)], [(0, 2), (10, 1.3)]),
    )
    assert texts(a, b)["seconds"] == "Per second, A and B are not distinguishable."
    c = model("C", [(0, 2.2), (5, 1.9), (10, 0.5)], [(0, 2.2), (5, 1.9), (10, 0.4)])
    expected = (
        "Per second, A is ahead of C until 6.4 s, then not distinguishable until 7.2 s, then C is"
        " ahead."
    )
    # 2 - .08 t = 3.4 - .3 t at 6.36 s, 2 - .1 t = 3.3 - .28 t at 7.22 s
    assert texts(a, c)["seconds"] == expected


def test_only_the_common_range_is_compared() -> None:
    """B was validated from 20 s on, where A has just ended."""
    a, b = model("A", [(0, 2), (20, 1)]), model("B", [(20, 1.5), (50, 1)])
    assert (
        texts(a, b)["seconds"] == "Per second, the learning curves of A and B have no common range."
    )
    late = model("C", [(10, 1.4), (50, 1.3)])
    assert texts(a, late)["seconds"].startswith(
        "Per second, C is ahead of A until 12 s, then A is ahead"
    )


def test_runs_without_curves() -> None:
    """Files of responses have no runs with curves; diverged runs are left out."""
    a, b = model("A", [(0, 2), (20, 1)]), model("B", [(0, 3), (20, 2)], [(0, 1), (20, 9)])
    b = replace(b, runs=(b.runs[0], replace(b.runs[1], diverged=True)))
    assert (
        texts(a, b)["seconds"]
        == "Per second, A is ahead of B throughout (number of runs: 1 and 1)."
    )
    assert crossings([a, model("C")]) == crossings([a]) == ()


def test_many_changes_are_shares_of_the_range() -> None:
    """Z is 1 and 2 in turn, A 1.25: Z is below in a quarter of each second."""
    zigzag = model("Z", [(time, 1 + time % 2) for time in range(9)])
    text = texts(model("A", [(0, 1.25), (8, 1.25)]), zigzag)["seconds"]
    expected = "Per second, Z is ahead over 25 % of the range, A is ahead over 75 % of the range"
    assert text == f"{expected} (number of runs: 1 and 1)."
    undecided = model("Z", *([(time, 1 + (time % 2) * low) for time in range(9)] for low in (1, 0)))
    assert (
        texts(model("A", [(0, 1.25), (8, 1.25)]), undecided)["seconds"]
        == "Per second, Z is ahead over 25 % of the range, A and Z are not distinguishable over 75"
        " % of the range (number of runs: 1 and 2)."
    )


# ------------------------------------------------------------------ cost


def test_seconds_to_the_value_that_all_reach() -> None:
    """B's second run stops at 1.5.

    A's runs reach it after 10 and 15 s, B's after 4 (interpolated) and 8 s.
    """
    a = model("A", [(0, 2), (10, 1.5), (20, 1)], [(0, 3), (20, 1)])
    b = model("B", [(2, 2), (6, 1)], [(4, 2), (8, 1.5), (12, 1.6)])
    expected = [
        TimeToValue(1.5, 12.5),
        TimeToValue(1.5, 6.0),
        None,
    ]
    assert seconds_to_common_value([a, b, model("C")]) == expected
    assert seconds_to_common_value([model("C")]) == [None]


def test_cost_from_the_files_of_runs(tmp_path: Path) -> None:
    folders = []
    for speeds, milliseconds, peak in (((10, 30, 50), 4, 900), ((20, 40), 6, None)):
        run = tmp_path / str(len(folders))
        run.mkdir()
        folders.append(run)
        lines = [{"step": 1, "train/tokens_per_second": speed} for speed in speeds] + [
            {"validation/loss": 1.0}
        ]
        (run / "metrics.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8"
        )
        decoding = {"responses": 50, "decoding_seconds": milliseconds / 1000 * 50}
        (run / "cost.json").write_text(json.dumps(decoding), encoding="utf-8")
        (run / "summary.json").write_text(
            json.dumps({"peak_memory_bytes": peak} if peak else {}), encoding="utf-8"
        )
    assert cost(folders, folders, None) == Cost(30, None, pytest.approx(5), 900)
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "metrics.jsonl").touch()
    assert cost([empty], [empty], None) == Cost()
