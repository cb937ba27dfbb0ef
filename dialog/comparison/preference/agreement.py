"""Agreement on choices between responses: Cohen's kappa and Krippendorff's alpha."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dialog.comparison.preference.pairs import CHOICES
from dialog.comparison.statistics.interval import LEVEL, Runs, interval, variances
from dialog.comparison.statistics.measured import Floats, Sums
from dialog.report.formats.preferences import PeopleAgreement, RaterAgreement


def agreement(one: Mapping[Any, str], other: Mapping[Any, str]) -> PeopleAgreement:
    """Return the share of common items with equal choices, and Cohen's kappa (1960).

    kappa = (observed - expected) / (1 - expected), `expected` from the frequencies of each one's
    choices; None without common items, or if both always made the same choice.
    """
    common = [item for item in one if item in other]
    if not common:
        return PeopleAgreement()
    raw = sum(one[item] == other[item] for item in common) / len(common)
    first = Counter(one[item] for item in common)
    second = Counter(other[item] for item in common)
    expected = sum(first[choice] * second[choice] for choice in CHOICES) / len(common) ** 2
    kappa = (raw - expected) / (1 - expected) if expected < 1 else None
    return PeopleAgreement(len(common), raw, kappa)


def krippendorff(units: Sequence[Counter[str]], groups: Sequence[str]) -> RaterAgreement:
    """Return Krippendorff's alpha of nominal values with its jackknife interval over groups of
    units; None where it is undefined.

    alpha = 1 - D_o / D_e over units with two values or more (Krippendorff 2011, Computing
    Krippendorff's alpha-reliability).

    Args:
        units: Number of each value of each unit.
        groups: Dialogue of each unit.
    """
    values = sorted({value for unit in units for value in unit})
    rated = [(unit, group) for unit, group in zip(units, groups, strict=True) if unit.total() > 1]
    names: dict[str, int] = {}
    labels = np.array([names.setdefault(group, len(names)) for _, group in rated], np.int64)
    if not rated:
        return RaterAgreement()
    counts = np.array([[unit[value] for value in values] for unit, _ in rated], np.float64)
    total = counts.sum(1, keepdims=True)
    disagreement = (counts * (total - counts) / (total - 1)).sum(1, keepdims=True)
    sums = Sums(np.concatenate([disagreement, counts], axis=1), labels, alpha_of)
    alpha = sums.value()
    if not math.isfinite(alpha):
        return RaterAgreement(len(rated))
    left_out = sums.leave_one_out() if len(names) > 1 else np.full(1, np.nan)
    if not np.isfinite(left_out).all():
        return RaterAgreement(len(rated), alpha)
    own = Runs(np.array([alpha]), left_out[None])
    zero = Runs(np.zeros(1), np.zeros((1, len(names))))
    result = interval(own, zero, variances(own, zero), LEVEL)
    limits = (max(result.low, -1.0), min(result.high, 1.0))
    return RaterAgreement(len(rated), alpha, limits)


def alpha_of(disagreement: Floats, *counts: Floats) -> Floats:
    """Return alpha for the sum of disagreements of units and the number of each value; NaN if all
    values are equal.
    """
    number = sum(counts, np.zeros(()))
    expected = sum((count * (number - count) for count in counts), np.zeros(()))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(1 - disagreement * (number - 1) / expected)
