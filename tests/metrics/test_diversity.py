from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.metrics.diversity import distinct_1, distinct_2, length_mean, unique_ratio

texts = st.lists(st.text(st.sampled_from("abAB ")), min_size=1, max_size=8)
ALL = [distinct_1, distinct_2, length_mean, unique_ratio]


def test_worked_by_hand() -> None:
    responses = ["yes I do", "Yes i do not", "no"]
    assert distinct_1(responses) == 5 / 8
    assert distinct_2(responses) == 3 / 5  # a pair never spans two responses
    assert length_mean(responses) == 8 / 3
    assert unique_ratio(responses) == 1
    assert unique_ratio(["ok", " OK ", "fine"]) == 2 / 3


@pytest.mark.parametrize("metric", ALL)
@pytest.mark.parametrize("responses", [[], ["", "  "]])
def test_without_words(metric: object, responses: list[str]) -> None:
    expected = 0.5 if metric is unique_ratio and responses else 0
    assert metric(responses) == expected


def test_one_word_responses_have_no_pairs() -> None:
    assert distinct_2(["yes", "no"]) == 0


@given(texts)
def test_bounds_and_order(responses: list[str]) -> None:
    for metric in ALL:
        assert metric(responses) == metric(responses[::-1])
    for metric in (distinct_1, distinct_2, unique_ratio):
        assert 0 <= metric(responses) <= 1


@given(texts, st.integers(2, 4))
def test_repeating_all_responses_divides_diversity(responses: list[str], times: int) -> None:
    for metric in (distinct_1, distinct_2, unique_ratio):
        assert metric(responses * times) == pytest.approx(metric(responses) / times)
    assert length_mean(responses * times) == pytest.approx(length_mean(responses))
