from __future__ import annotations

from dataclasses import replace

import pytest

from dialog.comparison.statistics.differences import (
    ARCHITECTURES,
    ONE_RUN_OF_B,
    TWO_RUNS,
    Difference,
)
from dialog.comparison.statistics.verdict import verdicts
from dialog.report.formats.metrics import Better

BETTER: dict[str, Better] = {
    "bits_per_byte": "lower",
    "token_accuracy": "higher",
    "f1": "higher",
    "sacrebleu": "higher",
    "length_mean": None,
    "bleu_1": "higher",
    "bleu_2": "higher",
    "bleu_3": "higher",
    "my_lab.Questions": "higher",
}


def record(
    metric: str, low: float, high: float, seeds: int | None = None, **fields: object
) -> Difference:
    decided = not low <= 0 <= high
    values = {
        "difference": (low + high) / 2,
        "interval": (low, high),
        "p": 0.01,
        "p_holm": 0.02,
        "decided": decided,
    }
    made = Difference(
        metric, "lstm", "transformer", "all", ARCHITECTURES, standard_error=0.1, seeds_needed=seeds
    )
    return replace(made, **{**values, **fields})


def text(*records: Difference, **arguments: object) -> str:
    (verdict,) = verdicts(records, BETTER, **arguments)
    return verdict["text"]


def test_the_verdict_is_a_sentence_per_outcome() -> None:
    records = [record("bits_per_byte", -0.034, -0.021), record("f1", -0.2, 0.4, 7)]
    assert (
        text(*records)
        == "lstm is better by 0.021 to 0.034 bits per byte (95 % interval). F1: undecided; about 7"
        " seeds would decide."
    )


def test_each_winner_has_a_sentence() -> None:
    records = [
        record("bits_per_byte", 0.021, 0.034),
        record("token_accuracy", 0.012, 0.034),
        record("f1", -1.2, -0.4),
    ]
    assert (
        text(*records)
        == "transformer is better by 0.021 to 0.034 bits per byte (95 % interval), and in F1. "
        "lstm is better in token accuracy by 1.2 to 3.4 percentage points (95 % interval)."
    )


@pytest.mark.parametrize(
    ("low", "high", "amount"),
    [(0.0001, 0.01, "0.0001 to 0.01"), (0.0212, 0.0213, "0.0212 to 0.0213")],
)
def test_amounts_are_not_rounded_to_zero(low: float, high: float, amount: str) -> None:
    assert f"by {amount} bits per byte" in text(record("bits_per_byte", low, high))


def test_undecided_metrics_with_the_same_reason_share_a_sentence() -> None:
    records = [
        record("bits_per_byte", -0.1, 0.2, 12),
        record("f1", -1, 2, 7),
        record("my_lab.Questions", -1, 2, 12),
        record("sacrebleu", -1, 2),
        record("token_accuracy", -1, 2, 5000),
    ]
    assert (
        text(*records)
        == "Bits per byte, F1, my_lab.Questions: undecided; about 7 to 12 seeds would decide. "
        "sacreBLEU: undecided; more seeds cannot decide, only more dialogues could. "
        "Token accuracy: undecided; more than 100 seeds would be needed."
    )


def test_a_metric_without_direction_is_never_better() -> None:
    assert text(record("length_mean", 0.5, 1.0)) == ""
    assert text(record("length_mean", -0.5, 1.0, 9)) == ""


def test_minor_metrics_are_counted() -> None:
    records = [
        record("f1", 1.0, 2.0),
        record("bleu_1", 0.5, 1.0),
        record("bleu_2", -0.5, 1.0, 9),
        record("bleu_3", 0.5, 1.0),
        record("my_lab.Questions", 0.5, 1.0),
    ]
    assert (
        text(*records)
        == "lstm is better in F1 by 1.00 to 2.00 (95 % interval), and in my_lab.Questions and 2 of"
        " 3 further metrics."
    )
    assert (
        text(*records[1:3], record("bleu_3", -1.0, -0.5))
        == "lstm is better in 1 of 3 further metrics. transformer is better in 1 of 3 further"
        " metrics."
    )
    assert text(records[2]) == ""


def test_one_run_each_is_not_about_architectures() -> None:
    two = [
        record("bits_per_byte", -0.2, -0.1, method=TWO_RUNS),
        record("f1", -1, 1, method=TWO_RUNS),
    ]
    assert (
        text(*two) == "One run each: this is about two runs, not about two architectures. "
        "lstm is better by 0.100 to 0.200 bits per byte (95 % interval). F1: undecided."
    )
    one = text(record("f1", -1, 1, method=ONE_RUN_OF_B))
    assert (
        one == "transformer has one run, so this is about that run and the architecture lstm. F1:"
        " undecided."
    )


def test_equal_untested_and_diverged() -> None:
    same = record("f1", 0, 0, standard_error=0.0)
    untested = Difference(
        "sacrebleu", "lstm", "transformer", "all", "not tested: undefined for lstm, run 2 of 5"
    )
    assert (
        text(same, untested, diverged={"lstm": (1, 5), "transformer": (0, 5)})
        == "F1: no difference. sacreBLEU: not tested: undefined for lstm, run 2 of 5. 1 of 5 runs"
        " of lstm diverged."
    )


def test_subsets_and_pairs_have_their_own_sentences() -> None:
    clean, leaked = (record("f1", -1, 2, 9, subset=subset) for subset in ("clean", "leaked"))
    everything = verdicts([record("f1", 1, 2), clean, leaked, record("f1", 1, 2, b="gru")], BETTER)
    assert [(verdict["b"], verdict["subset"]) for verdict in everything] == [
        ("transformer", "all"),
        ("transformer", "clean"),
        ("transformer", "leaked"),
        ("gru", "all"),
    ]
    assert everything[1]["text"].startswith("F1: undecided")
    assert everything[3]["text"] == "lstm is better in F1 by 1.00 to 2.00 (95 % interval)."


def test_files_of_responses_are_systems_not_architectures() -> None:
    single = record("f1", -1, 1, method=TWO_RUNS)
    both = text(single, files=["lstm", "transformer"])
    assert both.startswith(
        "This is about two systems, lstm and transformer, and not about architectures. F1"
    )
    assert text(single, files=["transformer"]).startswith(
        "This is about two systems, this run of lstm and transformer,"
    )
    several = text(record("f1", -1, 1, method=ONE_RUN_OF_B), files=["transformer"])
    assert several.startswith(
        "This is about the architecture lstm and the system transformer, whose other runs"
    )
