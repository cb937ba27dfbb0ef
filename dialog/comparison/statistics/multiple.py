"""Holm's correction for several tests."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order of the tests.

    The k-th smallest of m p-values is multiplied by m - k + 1. The products are at most 1 and do
    not decrease with k. Rejecting those up to alpha keeps the probability of any false rejection at
    alpha, for dependent tests also.
    Holm (1979), Scandinavian Journal of Statistics 6.
    """
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    adjusted = [0.0] * len(p_values)
    largest = 0.0
    for rank, test in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * p_values[test]))
        adjusted[test] = largest
    return adjusted


def holm_levels(p_values: Sequence[float], alpha: float) -> list[float]:
    """Return the level at which Holm's procedure tests each p-value: alpha / (tests not rejected
    before it).

    All tests that are not rejected have the level of the first of them.
    """
    rejected = [p <= alpha for p in holm(p_values)]
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    levels = [0.0] * len(p_values)
    for rank, test in enumerate(order):
        levels[test] = alpha / (len(order) - min(rank, sum(rejected)))
    return levels
