from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.metrics import (
    BitsPerByte,
    NegativeLogLikelihood,
    PerplexityToken,
    PerplexityWord,
    TokenAccuracy,
    UnknownRatio,
)
from dialog.metrics.additive import AdditiveMetric

ALL = [
    NegativeLogLikelihood,
    PerplexityToken,
    PerplexityWord,
    BitsPerByte,
    TokenAccuracy,
    UnknownRatio,
]


def measure(metric: AdditiveMetric, *statistics: object) -> float:
    metric.update(*statistics)
    value = metric.compute()
    assert value.dtype == torch.float64
    return value.item()


def test_worked_by_hand() -> None:
    # uniform over 4 tokens: 2 bits per token, 3 tokens and the end token, for "héllo  you"
    nll = 4 * math.log(4)
    assert measure(BitsPerByte(), nll, 11) == pytest.approx(8 / 11, rel=1e-12)
    assert measure(PerplexityToken(), nll, 4) == pytest.approx(4, rel=1e-12)
    assert measure(PerplexityWord(), nll, 2) == pytest.approx(16, rel=1e-12)
    assert measure(TokenAccuracy(), 1, 4) == 0.25
    assert measure(NegativeLogLikelihood(), nll, 4) == pytest.approx(nll, rel=1e-12)
    assert measure(NegativeLogLikelihood("mean"), nll, 4) == pytest.approx(nll / 4, rel=1e-12)


def test_an_unknown_token_costs_its_bytes_too() -> None:
    """<unk> with probability 1/2 in place of 6 bytes of 10."""
    assert measure(BitsPerByte(), math.log(2), 10, 6) == pytest.approx((1 + 8 * 6) / 10, rel=1e-12)
    assert measure(PerplexityWord(), math.log(2), 2, 6) == pytest.approx(
        2 ** ((1 + 8 * 6) / 2), rel=1e-12
    )
    assert measure(UnknownRatio(), 1, 4) == 0.25


def test_ratios_are_of_sums_not_means_of_ratios() -> None:
    assert measure(BitsPerByte(), [1.0, 999.0], [1, 99]) == pytest.approx(10 / math.log(2))
    assert measure(TokenAccuracy(), torch.tensor([1, 0]), torch.tensor([1, 99])) == 0.01


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.floats(0, 1e4), st.integers(1, 500)), min_size=1, max_size=12),
    st.permutations(range(12)),
    st.integers(1, 7),
)
def test_the_sums_are_exact_in_any_order_and_grouping(
    items: list[tuple[float, int]], order: list[int], size: int
) -> None:
    metric, grouped = BitsPerByte(), BitsPerByte()
    metric.update(*zip(*items, strict=True))
    shuffled = [items[index] for index in order if index < len(items)]
    for start in range(0, len(items), size):
        grouped.update(*zip(*shuffled[start : start + size], strict=True))
    assert torch.equal(grouped.sums, metric.sums)
    nll = math.fsum(nll for nll, _ in items)
    assert metric.compute().item() == pytest.approx(
        nll / math.log(2) / sum(size for _, size in items), abs=1e-12
    )


@pytest.mark.parametrize("kind", ALL[1:])
@pytest.mark.filterwarnings("ignore:The ``compute`` method")
def test_without_references_a_ratio_is_not_a_number(kind: type[AdditiveMetric]) -> None:
    assert math.isnan(kind().compute())


@pytest.mark.parametrize("nll", [math.nan, math.inf])
def test_a_likelihood_that_is_not_finite_stays_so(nll: float) -> None:
    assert measure(BitsPerByte(), nll, 3) == pytest.approx(nll, nan_ok=True)


def test_perplexity_overflows_to_infinity() -> None:
    assert measure(PerplexityToken(), 1e6, 1) == math.inf


@pytest.mark.parametrize(
    "convert", [torch.nn.Module.half, lambda module: module.to(torch.bfloat16)]
)
def test_the_sums_are_float64_in_any_precision(convert: object) -> None:
    module = torch.nn.ModuleDict({"metric": BitsPerByte(), "layer": torch.nn.Linear(1, 1)})
    convert(module)
    assert module["layer"].weight.itemsize == 2
    assert module["metric"].sums.dtype == torch.float64
    module["metric"].update(torch.tensor(1 / 3, dtype=torch.float64), 1)
    assert module["metric"].compute().item() == pytest.approx(1 / 3 / math.log(2), rel=1e-12)
    module["metric"].reset()
    assert module["metric"].sums.dtype == torch.float64


def test_an_unknown_reduction_raises() -> None:
    with pytest.raises(ValueError, match="reduction is 'median'; choose from sum, mean"):
        NegativeLogLikelihood("median")
