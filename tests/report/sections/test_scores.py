from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dialog.report.formats.results import Difference, results_of_json
from dialog.report.markdown import to_markdown
from dialog.report.sections.differences import statistics, winner
from dialog.report.sections.scores import generation, likelihood
from dialog.report.tables import ReportCell, ReportTable, provenance


def rows(table: ReportTable, group: int = 0) -> dict[str, tuple[ReportCell, ...]]:
    return {row[0].text: row[1:] for row in table.groups[group].rows}


def column(table: ReportTable, name: str, row: str, group: int = 0) -> str:
    return rows(table, group)[row][table.head.index(name) - 1].text


def set_summary(
    results: dict[str, Any], model: int, metric: str, mean: float, std: float | None = None
) -> None:
    results["models"][model]["summary"]["all"][metric] = {"mean": mean, "std": std, "n": 3}


def set_difference(results: dict[str, Any], metric: str, **values: object) -> None:
    for entry in results["differences"]:
        if (entry["metric"], entry["subset"]) == (metric, "all"):
            entry |= values


def decided(table: ReportTable, row: str) -> list[str]:
    return [cell.text for cell in rows(table)[row] if cell.mark == "decided"]


def test_likelihood_with_differences_and_ngrams(results: dict[str, Any]) -> None:
    set_summary(results, 0, "bits_per_byte", 1.31, 0.004)
    set_difference(
        results, "bits_per_byte", difference=-0.0274, interval=[-0.0339, -0.0211], p_holm=0.0021
    )
    (table,) = likelihood(results_of_json(results)).tables
    assert [group.title.partition(":")[0] for group in table.groups] == [
        "All dialogues",
        "Clean",
        "Leaked",
    ]
    assert column(table, "lstm", "Bits per byte ↓") == "1.310 ± 0.004"
    assert column(table, "Difference", "Bits per byte ↓") == "−0.027"
    assert column(table, "95 % interval", "Bits per byte ↓") == "[−0.034, −0.021]"
    assert column(table, "p (adj.)", "Bits per byte ↓") == "0.002"
    assert column(table, "Prob. of improvement", "Bits per byte ↓") == "92.0 %"
    assert column(table, "5-gram", "Bits per byte ↓") == "1.400"
    assert table.head[-table.references :] == tuple(f"{order}-gram" for order in range(1, 6))
    assert "lstm − transformer" in table.caption


def test_generation_with_reference_systems(results: dict[str, Any]) -> None:
    results["references"]["clean"]["human"]["f1"] = 77.123
    (table,) = generation(results_of_json(results)).tables
    assert "Bits per byte ↓" not in rows(table)
    assert table.head[-6:] == (
        "human",
        "random",
        "most frequent",
        "copy",
        "nearest",
        "nearest, no leak",
    )
    assert column(table, "human", "F1 ↑", group=1) == "77.12"
    assert "12.35" not in column(table, "lstm", "my_lab.warmth", group=1)
    assert "133" not in table.reference_note
    set_summary(results, 0, "bleu_plato_1", 25.0)
    assert "133" in generation(results_of_json(results)).tables[0].reference_note, (
        "which human responses have"
    )


def test_bold_means_decided(results: dict[str, Any]) -> None:
    set_difference(results, "bits_per_byte", difference=-0.02, decided=True)
    set_difference(results, "token_accuracy", difference=-0.02, decided=True)
    set_difference(results, "perplexity_word", difference=-3.0, decided=False)
    (table,) = likelihood(results_of_json(results)).tables
    assert decided(table, "Bits per byte ↓") == [
        rows(table)["Bits per byte ↓"][0].text,
        "−0.020",
        column(table, "95 % interval", "Bits per byte ↓"),
    ]
    assert decided(table, "Token accuracy ↑") == [
        rows(table)["Token accuracy ↑"][1].text,
        "−2.0 pp",
        column(table, "95 % interval", "Token accuracy ↑"),
    ]
    assert decided(table, "Perplexity per word ↓") == [], "a better mean is not decided"


def test_no_p_of_a_hypothesis_that_is_not_tested(results: dict[str, Any]) -> None:
    """The primary metric is tested first, the others only if it is decided."""
    for is_decided in (True, False):
        set_difference(results, "bits_per_byte", difference=-0.02, decided=is_decided)
        shown = results_of_json(results)
        (table,) = likelihood(shown).tables
        assert column(table, "p (adj.)", "Bits per byte ↓") != "–"
        assert (column(table, "p (adj.)", "Token accuracy ↑") != "–") == is_decided
        assert (column(generation(shown).tables[0], "p (adj.)", "F1 ↑") != "–") == is_decided


def test_no_winner_without_a_better_direction(results: dict[str, Any]) -> None:
    set_difference(results, "distinct_1", difference=0.01, decided=True)
    (table,) = generation(results_of_json(results)).tables
    assert decided(table, "Distinct-1") == ["+0.0100", column(table, "95 % interval", "Distinct-1")]


def difference(a: str, b: str, value: float, decided: bool) -> Difference:
    return Difference("bits_per_byte", a, b, "all", "t", value, decided=decided)


@pytest.mark.parametrize(
    ("values", "best"),
    [
        ([("a", "b", -1.0, True), ("a", "c", -1.0, True), ("b", "c", -1.0, False)], "a"),
        ([("a", "b", -1.0, True), ("a", "c", -1.0, False), ("b", "c", -1.0, True)], None),
        ([("a", "b", 1.0, True), ("a", "c", 1.0, True), ("b", "c", 1.0, True)], "c"),
    ],
)
def test_the_winner_beats_every_other_contender(
    values: list[tuple[str, str, float, bool]], best: str | None
) -> None:
    assert winner([difference(*value) for value in values], ["a", "b", "c"]) == best


def test_three_contenders_have_a_table_of_pairs(three: dict[str, Any]) -> None:
    values, matrix, pairs = likelihood(results_of_json(three)).tables
    assert values.head[1:4] == ("lstm", "transformer", "plato.jsonl")
    assert "Difference" not in values.head
    assert column(values, "plato.jsonl", "Bits per byte ↓") == "–"
    assert decided(values, "Bits per byte ↓") == [column(values, "lstm", "Bits per byte ↓")], (
        "of those with likelihood"
    )
    assert [row[1].text for row in pairs.groups[0].rows[:1]] == ["lstm − transformer"]
    assert pairs.folded == "Every pair"
    assert matrix.head == ("Bits per byte ↓", "transformer")
    assert [[cell.text for cell in row] for row in matrix.groups[0].rows] == [
        ["lstm", pairs.groups[0].rows[0][3].text]
    ]
    assert {row[1].text for row in generation(results_of_json(three)).tables[2].rows} == {
        *("lstm − transformer", "lstm − plato.jsonl", "transformer − plato.jsonl")
    }


def test_the_matrix_of_pairs_has_the_best_first(results_of: Callable[..., dict[str, Any]]) -> None:
    """Intervals are those of the row minus the column, also where the records have the pair the
    other way round.
    """
    results = results_of(["lstm", "gru", "hred"], subsets=False)
    for model, bits in zip(results["models"], (1.5, 1.2, 1.4), strict=True):
        model["summary"]["all"]["bits_per_byte"]["mean"] = bits
    limits = {
        ("lstm", "gru"): [0.25, 0.35],
        ("lstm", "hred"): [-0.05, 0.15],
        ("gru", "hred"): [-0.3, -0.1],
    }
    for entry in results["differences"]:
        if entry["metric"] == "bits_per_byte":
            low, high = entry["interval"] = limits[entry["a"], entry["b"]]
            entry["decided"] = not low <= 0 <= high
    matrix = likelihood(results_of_json(results)).tables[1]
    assert matrix.head == ("Bits per byte ↓", "hred", "lstm")
    (group,) = matrix.groups
    assert [[cell.text for cell in row] for row in group.rows] == [
        ["gru", "[−0.300, −0.100]", "[−0.350, −0.250]"],
        ["hred", "", "[−0.150, +0.050]"],
    ]
    assert [[cell.mark for cell in row] for row in group.rows] == [
        ["", "decided", "decided"],
        ["", "", ""],
    ]


def test_the_matrix_of_pairs_has_subsets_with_tests_only(three: dict[str, Any]) -> None:
    groups = len(likelihood(results_of_json(three)).tables[1].groups)
    for entry in three["differences"]:
        if entry["subset"] == "clean":
            entry["interval"] = []
    assert len(likelihood(results_of_json(three)).tables[1].groups) == groups - 1


def test_metrics_without_a_value_on_a_subset_have_no_row(results: dict[str, Any]) -> None:
    for model in results["models"]:
        del model["summary"]["clean"]["my_lab.warmth"]
    for row in results["references"]["clean"].values():
        row.pop("my_lab.warmth", None)
    results["differences"] = [
        entry for entry in results["differences"] if entry["metric"] != "my_lab.warmth"
    ]
    (table,) = generation(results_of_json(results)).tables
    assert ["my_lab.warmth" in rows(table, group) for group in range(3)] == [True, False, True]


def test_one_seed_has_no_spread(one_seed: dict[str, Any]) -> None:
    (table,) = likelihood(results_of_json(one_seed)).tables
    assert not any("±" in cell.text for row in table.rows for cell in row)
    assert "Prob. of improvement" not in table.head
    assert "probability of improvement" not in table.caption
    assert "paired bootstrap" in table.caption
    assert "standard deviation" not in table.caption


def test_a_difference_that_was_not_tested(results: dict[str, Any]) -> None:
    nothing = {
        "interval": [],
        "p": None,
        "p_holm": None,
        "decided": False,
        "method": "not tested: one dialogue",
    }
    set_difference(
        results, "f1", difference=None, **nothing, standard_error=None, detectable_difference=None
    )
    (table,) = generation(results_of_json(results)).tables
    assert column(table, "Difference", "F1 ↑") == column(table, "95 % interval", "F1 ↑") == "–"
    assert "one dialogue" not in table.caption
    (power,) = statistics(results_of_json(results)).tables
    assert column(power, "Method", "F1") == "not tested: one dialogue"


def test_lossy_tokenizers_are_marked(results: dict[str, Any]) -> None:
    results["models"][0]["runs"][0]["metrics"]["lossless"] = False
    (table,) = likelihood(results_of_json(results)).tables
    assert column(table, "lstm", "Bits per byte ↓").endswith(" †")
    assert not column(table, "transformer", "Bits per byte ↓").endswith(" †")
    assert "†: the tokenizer does not represent all of the text" in table.caption


def test_a_failed_metric(results: dict[str, Any]) -> None:
    del results["models"][0]["summary"]["all"]["f1"]
    assert column(generation(results_of_json(results)).tables[0], "lstm", "F1 ↑") == "–"


def test_fingerprint_and_signatures(results: dict[str, Any]) -> None:
    (table,) = generation(results_of_json(results)).tables
    source = provenance(results_of_json(results), (*table.metrics, "bleu_1", "bleu_2"))
    assert source == (
        "Evaluation 0123456789ab, test split, 7,740 responses in 1,000 dialogues; "
        "sacreBLEU, BLEU-1, BLEU-2 nrefs:1|case:lc|tok:13a|smooth:exp; chrF nrefs:1|nc:6|nw:0"
    )


def test_empty_results_have_no_tables(bare: dict[str, Any]) -> None:
    for model in bare["models"]:
        model["summary"] = {}
    assert (
        likelihood(results_of_json(bare)).tables
        == generation(results_of_json(bare)).tables
        == statistics(results_of_json(bare)).tables
        == ()
    )


@pytest.mark.parametrize(("whole", "empty"), [("clean", "leaked"), ("leaked", "clean")])
def test_a_subset_that_is_the_whole_test_set_is_not_repeated(
    results: dict[str, Any], whole: str, empty: str
) -> None:
    for model in results["models"]:
        model["summary"][empty] = {}
        for run in model["runs"]:
            run["metrics"]["subsets"] = {whole: {"examples": 7740}, empty: {"examples": 0}}
    for section in (likelihood(results_of_json(results)), generation(results_of_json(results))):
        (group,) = section.tables[0].groups
        assert group.title.startswith(f"All dialogues are {whole}: ")
    assert to_markdown(results_of_json(results)).count("lstm is better than transformer") == 1
