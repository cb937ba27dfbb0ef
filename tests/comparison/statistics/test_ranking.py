"""Ranking with groups that are not distinguished."""

from __future__ import annotations

from itertools import combinations

import pytest

from dialog.comparison.statistics.differences import ARCHITECTURES, Difference
from dialog.comparison.statistics.ranking import letter, ranking

MEANS = {"gru": 12.0, "lstm": 14.0, "s4": 11.0, "transformer": 13.0}


def groups(*undecided: tuple[str, str], metric: str = "f1") -> dict[str, str]:
    records = [
        Difference(metric, a, b, "all", ARCHITECTURES, decided=(a, b) not in undecided)
        for a, b in combinations(MEANS, 2)
    ]
    return {entry.name: entry.groups for entry in ranking(metric, MEANS, records)}


def test_the_best_is_first() -> None:
    assert [*groups()] == ["lstm", "transformer", "gru", "s4"]
    assert [*groups(metric="bits_per_byte")] == ["s4", "gru", "transformer", "lstm"]


def test_contenders_that_are_not_distinguished_share_a_letter() -> None:
    assert groups() == {"lstm": "a", "transformer": "b", "gru": "c", "s4": "d"}
    everyone = groups(*combinations(MEANS, 2))
    assert everyone == dict.fromkeys(MEANS, "a")
    chain = groups(("lstm", "transformer"), ("gru", "transformer"), ("gru", "s4"))
    assert chain == {"lstm": "a", "transformer": "ab", "gru": "bc", "s4": "c"}
    # not in the order of the means, as contenders with fewer seeds are harder to distinguish
    assert groups(("lstm", "s4")) == {"lstm": "a", "transformer": "b", "gru": "c", "s4": "a"}


@pytest.mark.parametrize(("place", "text"), [(0, "a"), (25, "z"), (26, "aa"), (53, "bb")])
def test_letters(place: int, text: str) -> None:
    assert letter(place) == text
