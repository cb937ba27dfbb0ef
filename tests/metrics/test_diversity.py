from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics import Metric

from dialog.metrics import (
    CountMetric,
    DistinctN,
    Dullness,
    Entropy,
    ExpectationAdjustedDistinct,
    LengthMean,
    RarefiedDistinct,
    UniqueRatio,
)

texts = st.lists(st.text(st.sampled_from("abAB ")), min_size=1, max_size=8)
RATIOS = [lambda: DistinctN(1), lambda: DistinctN(2), UniqueRatio]


def measure(metric: Metric, responses: Sequence[str]) -> float:
    metric.update(responses)
    return metric.compute().item()


def test_worked_by_hand() -> None:
    responses = ["yes I do", "Yes i do not", "no"]
    assert measure(DistinctN(1), responses) == 5 / 8
    assert measure(DistinctN(2), responses) == 3 / 5  # a pair never spans two responses
    assert measure(LengthMean(), responses) == 8 / 3
    assert measure(UniqueRatio(), responses) == 1
    assert measure(UniqueRatio(), ["ok", " OK ", "fine"]) == 2 / 3


def test_chinese_is_counted_by_characters() -> None:
    responses = ["你好。", "你好 吗"]
    assert measure(DistinctN(1), responses) == 4 / 6
    assert measure(DistinctN(2), responses) == 3 / 4
    assert measure(LengthMean(), responses) == 3


@pytest.mark.parametrize("build", [*RATIOS, LengthMean])
@pytest.mark.parametrize("responses", [[], ["", "  "]])
def test_without_words(build: type[Metric], responses: list[str]) -> None:
    assert measure(build(), responses) == (0.5 if build is UniqueRatio and responses else 0)


@given(texts)
def test_bounds_order_and_batches(responses: list[str]) -> None:
    for build in (*RATIOS, LengthMean):
        value = measure(build(), responses)
        batched = build()
        for response in responses[::-1]:
            batched.update([response])
        assert batched.compute().item() == value
        assert value <= 1 or build is LengthMean


@given(texts, st.integers(2, 4))
def test_repeating_all_responses_divides_diversity(responses: list[str], times: int) -> None:
    for build in RATIOS:
        assert measure(build(), responses * times) == pytest.approx(
            measure(build(), responses) / times
        )
    assert measure(LengthMean(), responses * times) == pytest.approx(
        measure(LengthMean(), responses)
    )


def test_reset_forgets_all_responses() -> None:
    metric = DistinctN(1)
    metric.update(["a b"])
    metric.reset()
    assert measure(metric, ["c c"]) == 0.5


def test_an_ngram_has_a_word() -> None:
    with pytest.raises(ValueError, match="n is 0; give at least 1"):
        DistinctN(0)


# ------------------------------------------------------------------ functions of counts

COUNTS = [
    lambda: DistinctN(2), UniqueRatio, lambda: ExpectationAdjustedDistinct(1, vocabulary=9), lambda: Entropy(1),
    lambda: Dullness(2), lambda: RarefiedDistinct(1, sample=3),
]  # fmt: skip


def test_entropy_worked_by_hand() -> None:
    assert measure(Entropy(1), ["a b", "A c"]) == pytest.approx(1.5 * math.log(2))
    assert measure(Entropy(2), ["a b c"]) == pytest.approx(math.log(2))
    assert measure(Entropy(1), ["a a"]) == measure(Entropy(1), []) == 0


def test_expectation_adjusted_distinct_worked_by_hand() -> None:
    # 3 words drawn from 4 are expected to have 4 * (1 - (3 / 4)^3) = 37 / 16 distinct ones
    assert measure(ExpectationAdjustedDistinct(1, vocabulary=4), ["a b", "a"]) == pytest.approx(
        2 / (37 / 16)
    )
    assert measure(ExpectationAdjustedDistinct(2, vocabulary=2), ["a b", "b a b"]) == pytest.approx(
        2 / (37 / 16)
    )
    assert measure(ExpectationAdjustedDistinct(1), []) == 0
    assert ExpectationAdjustedDistinct(1).signature == "vocabulary:30522"
    with pytest.raises(ValueError, match="vocabulary is 1; give at least 2"):
        ExpectationAdjustedDistinct(1, vocabulary=1)


def test_expectation_adjusted_distinct_corrects_the_length() -> None:
    draw = np.random.default_rng(0)
    short, long = (
        [" ".join(map(str, draw.integers(0, 1000, size))) for _ in range(300)] for size in (3, 30)
    )
    assert measure(DistinctN(1), short) > 5 * measure(DistinctN(1), long)
    corrected = [
        measure(ExpectationAdjustedDistinct(1, vocabulary=1000), responses)
        for responses in (short, long)
    ]
    assert corrected == pytest.approx([1, 1], abs=0.02)


def test_rarefied_distinct_worked_by_hand() -> None:
    # of a, a, b two are drawn: {a, a} once, {a, b} twice
    assert measure(RarefiedDistinct(1, sample=2), ["a A", "b"]) == pytest.approx(
        (1 + 2 + 2) / 3 / 2
    )
    assert measure(RarefiedDistinct(1, sample=3), ["a A", "b"]) == pytest.approx(2 / 3)
    # two bigrams are missing
    assert measure(RarefiedDistinct(2, sample=4), ["a b", "c d"]) == pytest.approx(2 / 4)
    assert measure(RarefiedDistinct(2, sample=4), ["a", ""]) == 0
    with pytest.raises(ValueError, match="sample is 0; give at least 1"):
        RarefiedDistinct(1, sample=0)


def test_rarefied_distinct_is_that_of_any_number_of_responses() -> None:
    draw = np.random.default_rng(0)
    many = [" ".join(map(str, draw.zipf(1.5, 5))) for _ in range(4000)]
    few, all_of_them = (
        measure(RarefiedDistinct(1, sample=500), part) for part in (many[:400], many)
    )
    assert few == pytest.approx(all_of_them, rel=0.05)
    assert measure(DistinctN(1), many[:400]) > 1.5 * measure(DistinctN(1), many)


def test_dullness_worked_by_hand() -> None:
    responses = ["ok", "OK ", "no", "no", "no", "yes", "maybe"]
    assert measure(Dullness(1), responses) == 3 / 7
    assert measure(Dullness(2), responses) == 5 / 7
    assert measure(Dullness(), responses) == 1
    assert measure(Dullness(), [f"word {number}" for number in range(80)]) == 20 / 80
    with pytest.raises(ValueError, match="most_frequent is 0; give at least 1"):
        Dullness(0)


@given(texts, st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_resamples_are_scored_from_counts(responses: list[str], weights: list[int]) -> None:
    """A row of counts with zeros has the value of the responses that it stands for."""
    for build in COUNTS:
        metric: CountMetric = build()
        items = [Counter(metric.items(response)) for response in responses]
        types = sorted(set().union(*items))
        table = np.array([[row[item] for item in types] for row in items]).reshape(
            len(items), len(types)
        )
        resamples = np.array([weights[: len(items)], [1] * len(items), [0] * len(items)])
        drawn = [
            response
            for response, weight in zip(responses, weights, strict=False)
            for _ in range(weight)
        ]
        expected = [measure(build(), drawn), measure(build(), responses), 0]
        assert metric.value(resamples @ table) == pytest.approx(expected)


def test_items_of_selected_responses() -> None:
    items = DistinctN(1).items_of(["a b a", "", "b c"])
    assert items.sizes.tolist() == [3, 0, 2]
    assert sorted(items.counts()) == [1, 2, 2]
    assert sorted(items.counts(np.array([True, True, False]))) == [1, 2]
