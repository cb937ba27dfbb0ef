from __future__ import annotations

from typing import Any

import pytest

from dialog.report.markdown import terminal_table
from dialog.report.measures import METRIC_DISPLAYS, duration, metric_display
from dialog.report.tables import ReportCell, ReportTable, parity, runs, summary


def rows(table: ReportTable) -> dict[str, tuple[ReportCell, ...]]:
    return {row[0].text: row[1:] for row in table.rows}


def test_mean_and_spread(results: dict[str, Any]) -> None:
    table = summary(results)
    assert table.head == ("", "lstm", "transformer", "human")
    shown = rows(table)
    assert shown["Bits per byte ↓"][0].text == "1.510 ± 0.010"
    assert shown["Token accuracy ↑"][0].text == "41.2 ± 1.0 %"
    assert shown["my_lab.warmth"][0].text == "12.35 ± 0.01"
    assert shown["Parameters"][0].text == "1,234,567"
    assert shown["Training time"][0].text == "1 min 41 s ± 1.0 s"
    assert shown["Target tokens seen"][0].text == "8,000"
    assert shown["Distinct-1"][2].text == "0.0695"


def test_one_seed_has_no_spread(one_seed: dict[str, Any]) -> None:
    assert not any("±" in cell.text for row in summary(one_seed).rows for cell in row)
    assert rows(summary(one_seed))["Bits per byte ↓"][0].text == "1.510"


def test_the_best_mean_is_marked_if_a_direction_is_better(results: dict[str, Any]) -> None:
    shown = rows(summary(results))
    assert [cell.mark for cell in shown["Bits per byte ↓"]] == ["best", "", ""]
    assert [cell.mark for cell in shown["Token accuracy ↑"]] == ["", "", ""], "equal"
    assert [cell.mark for cell in shown["Distinct-1"]] == ["", "", ""], "no direction is better"
    results["models"][1]["summary"]["token_accuracy"]["mean"] = 0.5
    assert [cell.mark for cell in rows(summary(results))["Token accuracy ↑"]] == ["", "best", ""]


def test_means_with_equal_text_have_no_best(results: dict[str, Any]) -> None:
    results["models"][1]["summary"]["bits_per_byte"]["mean"] = 1.5100001
    assert not any(cell.mark for cell in rows(summary(results))["Bits per byte ↓"])


@pytest.mark.parametrize("mean", [None, float("nan"), float("inf")])
def test_a_failed_model_leaves_no_best(results: dict[str, Any], mean: float | None) -> None:
    results["models"][0]["summary"]["bits_per_byte"] = {"mean": mean, "std": None, "n": 1}
    assert not any(cell.mark for cell in rows(summary(results))["Bits per byte ↓"])


def test_a_metric_missing_from_one_model(results: dict[str, Any]) -> None:
    del results["models"][0]["summary"]["bits_per_byte"]
    assert [cell.text for cell in rows(summary(results))["Bits per byte ↓"]][:2] == ["–", "1.610 ± 0.010"]


def test_bits_per_byte_of_a_lossy_tokenizer_are_marked(results: dict[str, Any]) -> None:
    results["models"][0]["runs"][0]["metrics"]["lossless"] = False
    results["models"][1]["runs"][0]["metrics"]["lossless"] = True
    assert [cell.text for cell in rows(summary(results))["Bits per byte ↓"]][:2] == ["1.510 ± 0.010 †", "1.610 ± 0.010"]
    assert "†: the tokenizer does not represent all of the text" in terminal_table(results)


def test_parity(results: dict[str, Any]) -> None:
    shown = rows(parity(results))
    assert [cell.text for cell in shown["vocabulary"]] == ["8,000", "8,000", "✓ equal"]
    assert [cell.mark for cell in shown["optimizer.lr"]] == ["", "", "differs"]
    assert shown["data hello"][-1].mark == "broken"


def test_parity_shows_relative_differences(results: dict[str, Any]) -> None:
    for values, text in (([100, 103, 101], "differs by 3.0 %"), ([1, 0, 1], "differs"), (["a", "b", "a"], "differs")):
        results["parity"] = [{"what": "parameters", "equal": False, "must": False, "values": values}]
        assert rows(parity(results))["parameters"][-1].text == text


def test_runs(results: dict[str, Any]) -> None:
    table = runs(results)
    assert len(table.rows) == 6
    assert {len(row) for row in table.rows} == {len(table.head)}
    assert [cell.text for cell in table.rows[1]][:6] == ["lstm", "1", "1 min 41 s", "80", "8,000", "1.635"]


def test_tables_of_minimal_results(bare: dict[str, Any]) -> None:
    assert parity(bare).rows == ()
    assert all(cell.text for row in summary(bare).rows for cell in row)
    assert "–" in [cell.text for cell in runs(bare).rows[0]]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0.0 s"), (9.96, "10.0 s"), (45.4, "45 s"), (59.7, "1 min 00 s"), (200, "3 min 20 s"), (3599.8, "1 h 00 min")],
)
def test_duration(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_every_metric_has_a_label_and_a_definition() -> None:
    assert all(metric.definition.endswith(".") for metric in METRIC_DISPLAYS.values())
    assert len({metric.label for metric in METRIC_DISPLAYS.values()}) == len(METRIC_DISPLAYS)
    assert metric_display("bits_per_byte").format(1.23456) == "1.235"


@pytest.mark.parametrize(("value", "text"), [(1.5, "1.50"), (1234567.0, "1,234,567.00"), (2.6e20, "2.6e+20")])
def test_large_numbers_are_short(value: float, text: str) -> None:
    assert metric_display("perplexity_word").format(value) == text
