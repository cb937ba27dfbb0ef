from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torchmetrics import Metric

from dialog.metrics import DistinctN, LengthMean, UniqueRatio

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
        assert measure(build(), responses * times) == pytest.approx(measure(build(), responses) / times)
    assert measure(LengthMean(), responses * times) == pytest.approx(measure(LengthMean(), responses))


def test_reset_forgets_all_responses() -> None:
    metric = DistinctN(1)
    metric.update(["a b"])
    metric.reset()
    assert measure(metric, ["c c"]) == 0.5


def test_an_ngram_has_a_word() -> None:
    with pytest.raises(ValueError, match="n is 0; give at least 1"):
        DistinctN(0)
