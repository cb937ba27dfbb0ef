"""Verdict on more than two contenders."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from dialog.comparison.statistics.differences import ARCHITECTURES, NOT_TESTED, TWO_RUNS, Difference
from dialog.comparison.statistics.ranking import MOST_PAIRS, rankings
from dialog.report.formats.metrics import Better

BETTER: dict[str, Better] = {
    "length_mean": None,
    "bits_per_byte": "lower",
    "f1": "higher",
    "chrf": "higher",
}
MEANS = {
    "gru": {"bits_per_byte": 1.3, "f1": 12.0, "chrf": 30.0},
    "lstm": {"bits_per_byte": 1.2, "f1": 14.0, "chrf": 32.0},
    "transformer": {"bits_per_byte": 1.25, "f1": 13.0, "chrf": 33.0},
}


def records(
    means: dict[str, dict[str, float]] = MEANS, *undecided: tuple[str, str, str]
) -> list[Difference]:
    """Differences of all pairs and metrics with an interval of a tenth of the difference to each
    side.
    """
    made = [
        Difference("length_mean", a, b, "all", ARCHITECTURES, 1.0, (0.9, 1.1))
        for a, b in combinations(means, 2)
    ]
    for (a, b), metric in ((pair, metric) for pair in combinations(means, 2) for metric in BETTER):
        if metric in means[a] and metric in means[b]:
            difference = means[a][metric] - means[b][metric]
            limits = tuple(sorted((0.9 * difference, 1.1 * difference)))
            decided = (metric, a, b) not in undecided
            made.append(
                Difference(metric, a, b, "all", ARCHITECTURES, difference, limits, decided=decided)
            )
    return made


def text(
    entries: list[Difference], means: dict[str, dict[str, float]] = MEANS, **options: object
) -> str:
    (ranking,) = rankings(entries, {"all": means}, BETTER, **options)
    assert ranking["subset"] == "all"
    return ranking["text"]


def test_all_differences_are_decided() -> None:
    assert (
        text(records())
        == "Bits per byte, best first: lstm 1.200, transformer 1.250, gru 1.300. lstm is better"
        " than transformer by 0.045 to 0.055 (95 % interval). All 3 differences are decided."
        " Best in F1: lstm. Best in chrF: transformer."
    )


def test_names_with_commas_are_separated_by_semicolons() -> None:
    means = {f"{name}, dropout=0.1": values for name, values in MEANS.items()}
    undecided = [("f1", a, b) for a, b in combinations(means, 2) if "gru" not in a + b]
    verdict = text(records(means, *undecided), means)
    assert (
        "best first: lstm, dropout=0.1 1.200; transformer, dropout=0.1 1.250; gru, dropout=0.1"
        " 1.300. " in verdict
    )
    assert (
        "Best in F1: lstm, dropout=0.1 and transformer, dropout=0.1, undecided between them."
        in verdict
    )


def test_undecided_pairs_are_named_with_what_would_decide() -> None:
    entries = records(
        MEANS, ("bits_per_byte", "lstm", "transformer"), ("chrf", "lstm", "transformer")
    )
    entries = [replace(entry, seeds_needed=7, standard_error=0.1) for entry in entries]
    assert (
        text(entries)
        == "Bits per byte, best first: lstm 1.200, transformer 1.250, gru 1.300. Undecided: lstm"
        " and transformer (about 7 seeds would decide). The other pairs are decided. Best in F1:"
        " lstm. Best in chrF: lstm and transformer, undecided between them."
    )


def test_metrics_without_a_best_contender_share_a_sentence() -> None:
    undecided = [(metric, a, b) for metric in ("f1", "chrf") for a, b in combinations(MEANS, 2)]
    assert text(records(MEANS, *undecided)).endswith("Undecided between all in F1 and chrF.")


def test_many_best_contenders_are_named_by_the_others() -> None:
    means = {
        name: {"bits_per_byte": 1.0 + place / 100, "f1": 9.0 - place}
        for place, name in enumerate("abcd")
    }
    undecided = [("f1", a, b) for a, b in combinations("abc", 2)]
    assert text(records(means, *undecided), means).endswith("Undecided in F1 between all but d.")


def test_contenders_not_tested_in_a_metric_are_not_best_in_it() -> None:
    """A contender with another tokenizer has a token accuracy, which is not compared."""
    means = {**MEANS, "other": {"bits_per_byte": 1.4, "f1": 20.0}}
    entries = [
        (
            replace(entry, method=f"{NOT_TESTED}the tokenizers differ", decided=False)
            if entry.metric == "f1" and entry.b == "other"
            else entry
        )
        for entry in records(means)
    ]
    assert "Best in F1: lstm." in text(entries, means)


def test_many_undecided_pairs_are_counted() -> None:
    means = {name: {"bits_per_byte": 1.0 + place / 100} for place, name in enumerate("abcde")}
    undecided = [("bits_per_byte", a, b) for a, b in combinations("abcde", 2)][1:]
    assert len(undecided) > MOST_PAIRS
    assert "9 of 10 differences are undecided." in text(records(means, *undecided), means)


@pytest.mark.parametrize(
    ("files", "scope"),
    [
        ((), "One run each: this is about runs, not about architectures."),
        (("gru",), "One run each: this is about systems, not about architectures."),
    ],
)
def test_single_runs_are_no_architectures(files: tuple[str, ...], scope: str) -> None:
    entries = [replace(entry, method=TWO_RUNS) for entry in records()]
    assert text(entries, files=files).startswith(f"{scope} Bits per byte, best first:")


def test_a_file_without_likelihood_is_left_out_of_the_order() -> None:
    """A file of responses has no likelihood; diverged runs are counted."""
    means = {**MEANS, "file": {"f1": 20.0}}
    entries = records(means)
    entries += [
        Difference("bits_per_byte", name, "file", "all", f"{NOT_TESTED}not measured for file")
        for name in MEANS
    ]
    answer = text(entries, means, diverged={"gru": (1, 3)})
    assert "best first: lstm 1.200, transformer 1.250, gru 1.300." in answer
    assert "All 3 differences are decided. Best in F1: file. Best in chrF: transformer." in answer
    assert answer.endswith("1 of 3 runs of gru diverged.")
    pair = [
        entry
        for entry in entries
        if entry.metric != "bits_per_byte" or {entry.a, entry.b} == {"lstm", "transformer"}
    ]
    assert "0.045 to 0.055 (95 % interval). Best in F1" in text(pair, means), (
        "the only difference is told already"
    )


def test_too_few_dialogues_for_any_test() -> None:
    entries = [replace(entry, method=f"{NOT_TESTED}fewer than 6 dialogues") for entry in records()]
    assert text(entries) == "No metric is tested: fewer than 6 dialogues."


def test_a_metric_in_which_each_is_beaten_has_no_best() -> None:
    signs = {("gru", "lstm"): 1.0, ("lstm", "transformer"): 1.0, ("gru", "transformer"): -1.0}
    entries = [
        replace(entry, difference=signs[entry.a, entry.b]) if entry.metric == "chrf" else entry
        for entry in records()
    ]
    assert "chrF" not in text(entries)
