"""The verdict, checked by its facts: figures, names, and what it is about."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dialog.comparison.statistics.differences import (
    ARCHITECTURES,
    ONE_RUN_OF_B,
    TWO_RUNS,
    Difference,
)
from dialog.comparison.statistics.verdict import Circumstances, EvaluationSet, verdict
from dialog.report.formats.metrics import metric_display
from dialog.report.formats.results import Ranked

MEANS = {"lstm": 1.329, "transformer": 1.424}
METRICS = ("bits_per_byte", "token_accuracy", "f1", "length_mean")
ABOUT = Circumstances(
    EvaluationSet("dailydialog", examples=7740, dialogues=1000), {"lstm": 3, "transformer": 3}
)


def record(metric: str, low: float, high: float, **fields: object) -> Difference:
    values = {
        "difference": (low + high) / 2,
        "interval": (low, high),
        "p": 0.01,
        "p_holm": 0.0002,
        "decided": not low <= 0 <= high,
    }
    made = Difference(metric, "lstm", "transformer", "all", ARCHITECTURES, standard_error=0.1)
    return replace(made, **{**values, **fields})


def text(*records: Difference, about: Circumstances = ABOUT, primary: str = "bits_per_byte") -> str:
    better = {metric: metric_display(metric).better for metric in METRICS}
    entries = [Ranked(name, mean, "ab"[place:]) for place, (name, mean) in enumerate(MEANS.items())]
    return verdict(records, {primary: entries}, better, primary, about)


MAIN = record("bits_per_byte", -0.099, -0.092, difference=-0.095)


def test_the_first_sentence_can_be_pasted_into_a_paper() -> None:
    assert text(MAIN) == (
        "On DailyDialog's test split (7,740 responses in 1,000 dialogues), lstm (3 seeds) has 1.329"
        " bits per byte and transformer (3 seeds) 1.424, a difference of −0.095 (95 % interval"
        " −0.099 to −0.092; t test over seeds and dialogues, p < 0.001)."
    )
    own = replace(ABOUT, test_set=EvaluationSet("jsonl", examples=40, dialogues=10), looks=2)
    assert text(MAIN, about=own).startswith("On the test split (40 responses in 10 dialogues), ")
    assert "corrected for 2 looks" in text(MAIN, about=own)
    f1 = text(record("f1", -0.2, 0.4, p_holm=0.21), primary="f1")
    assert "of 100 in F1 and transformer" in f1
    assert "p = 0.21" in f1


def test_decided_secondary_metrics_are_named_by_winner() -> None:
    better = record("token_accuracy", 0.01, 0.02)
    worse = record("f1", -2, -1)
    _, secondary = text(MAIN, better, worse).split(". Of ")
    assert secondary.startswith("2 secondary metrics")
    assert "lstm is better in token accuracy; transformer is better in F1" in secondary
    assert "; F1 is not decided." in text(MAIN, better, record("f1", -1, 2))
    assert "none is decided" in text(MAIN, record("f1", -1, 2))
    shown = record("length_mean", 1, 2, p=None, p_holm=None, decided=False)
    assert text(MAIN, shown) == text(MAIN)
    undecided = text(record("bits_per_byte", -0.1, 0.2, p_holm=0.3), better)
    assert "token accuracy" not in undecided
    assert "none of the 1 secondary" in undecided


def test_subsets_have_the_primary_metric_only() -> None:
    clean = record("bits_per_byte", -0.09, -0.07, subset="clean")
    leaked = record("bits_per_byte", -0.12, -0.10, subset="leaked")
    both = text(MAIN, clean, leaked)
    assert "−0.080 (−0.090 to −0.070; p < 0.001) on clean dialogues and −0.110" in both


def test_one_run_each_is_not_about_architectures() -> None:
    once = replace(ABOUT, runs={"lstm": 1, "transformer": 1})
    single = record("bits_per_byte", -0.2, -0.1, method=TWO_RUNS)
    trained = text(single, about=once)
    assert trained.endswith(
        "Each model was trained once, so this compares two runs, not two architectures."
    )
    assert "randomization test over dialogues" in trained
    assert "seeds" not in trained
    answered = replace(once, files=["lstm", "transformer"])
    assert "responses, not" not in text(single, about=answered), "likelihoods are of references"
    overlap = record("f1", -2, -1, method=TWO_RUNS)
    assert "Each system answered once" in text(overlap, about=answered, primary="f1")
    mixed = replace(ABOUT, runs={"lstm": 3, "transformer": 1})
    one = record("bits_per_byte", -1, 1, method=ONE_RUN_OF_B)
    assert "transformer was trained once" in text(one, about=mixed)
    assert "transformer was measured once" in text(one, about=replace(mixed, files=["transformer"]))


@pytest.mark.parametrize(
    ("change", "fact"),
    [
        ({"late": [("lstm", "transformer")]}, "1 look was planned"),
        ({"missing": ["lstm"]}, "Runs of lstm are missing"),
        ({"diverged": {"lstm": (1, 5)}}, "1 of 5 runs of lstm diverged."),
        (
            {"test_set": EvaluationSet(examples=9, dialogues=9, grouped=False)},
            "Without dialogue ids",
        ),
    ],
)
def test_notes_have_a_line_of_their_own(change: dict[str, object], fact: str) -> None:
    first, note = text(MAIN, about=replace(ABOUT, **change)).splitlines()
    assert fact in note
    assert fact not in first


def test_metrics_without_a_test() -> None:
    reason = "not tested: fewer than 6 dialogues"
    few = Difference("bits_per_byte", "lstm", "transformer", "all", reason)
    assert text(few) == "No metric is tested: fewer than 6 dialogues."
    one = replace(few, method="not tested: undefined for lstm, run 2 of 5")
    assert "Bits per byte: not tested: undefined for lstm, run 2 of 5" in text(
        one, record("f1", 1, 2)
    )


def test_more_than_two_are_ranked_with_letters() -> None:
    names = [("lstm", 1.2, "a"), ("gru", 1.21, "ab"), ("transformer", 1.3, "b")]
    entries = [Ranked(*one) for one in names]
    three = replace(ABOUT, runs=dict.fromkeys(["gru", "lstm", "transformer"], 3))
    rankings = {"bits_per_byte": entries}
    sentences = verdict([MAIN], rankings, {"bits_per_byte": "lower"}, "bits_per_byte", three)
    assert "lstm 1.200 (a), gru 1.210 (ab), transformer 1.300 (b)." in sentences
    assert "over 3 seeds" in sentences
    uneven = replace(three, runs={"gru": 1, "lstm": 3, "transformer": 3})
    sentences = verdict([MAIN], rankings, {"bits_per_byte": "lower"}, "bits_per_byte", uneven)
    assert "lstm (3 seeds) 1.200 (a)" in sentences
    assert "gru was trained once" in sentences
