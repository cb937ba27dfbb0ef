"""Laws of the adjusted p-values over pairs and metrics."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.stats import norm

from dialog.comparison.decisions.family import adjusted


def test_one_pair_is_a_fixed_sequence_then_holm() -> None:
    (primary,), (others,) = adjusted([0.03], [[0.01, 0.04, 0.03, 0.005]])
    assert primary == pytest.approx(0.03)
    # Holm's 0.03, 0.06, 0.06, 0.02, but none before the primary one
    assert others == pytest.approx([0.03, 0.06, 0.06, 0.03])
    (primary,), (others,) = adjusted([0.2], [[0.001]])
    assert [primary, *others] == pytest.approx([0.2, 0.2])
    assert adjusted([], []) == ([], [])


def test_primary_hypotheses_alone_are_holm() -> None:
    p_values = [0.01, 0.04, 0.03, 0.005]
    assert adjusted(p_values, [[]] * 4)[0] == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjusted([0.7, 0.8], [[], []])[0] == [1, 1]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_no_secondary_before_its_primary_and_larger_p_values(share: float) -> None:
    generator = np.random.default_rng(3)
    for pairs in (1, 2, 3, 6):
        for _ in range(10):
            p = 10 ** generator.uniform(-5, 0, (pairs, 4))
            primary, others = adjusted(p[:, 0].tolist(), p[:, 1:].tolist(), share)
            all_p = np.column_stack([primary, others])
            assert (all_p >= p * (1 - 1e-9)).all()
            assert (all_p <= 1).all()
            assert (all_p[:, 1:] >= all_p[:, :1] - 1e-12).all()
            for row, given in zip(all_p, p, strict=True):  # in the order of the p-values
                order = np.argsort(given[1:])
                assert all(one <= other for one, other in pairwise(row[1:][order]))
            p[0, 2] /= 10  # a smaller p-value makes no other one larger
            primary, others = adjusted(p[:, 0].tolist(), p[:, 1:].tolist(), share)
            assert (np.column_stack([primary, others]) <= all_p + 1e-12).all()


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_wrong_decisions_of_a_report(correlation: float) -> None:
    """Five equally good systems, whose ten pairs share systems, and the truth with one better
    system.
    """
    generator = np.random.default_rng(5)
    pairs = [*combinations(range(5), 2)]
    for better in (0.0, 6.0):
        wrong = 0
        for _ in range(200):
            shared, own = generator.normal(size=(5, 1)), generator.normal(size=(5, 6))
            values = np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own
            values[0, 0] += better
            z = np.array([values[a] - values[b] for a, b in pairs]) / np.sqrt(2)
            p = 2 * norm.sf(np.abs(z))
            primary, others = adjusted(p[:, 0].tolist(), p[:, 1:].tolist())
            true = [q for (a, _), q in zip(pairs, primary, strict=True) if a or not better]
            wrong += min([*true, *(q for group in others for q in group)]) <= 0.05
        assert wrong / 200 <= 0.08  # 5 %, within what 200 simulations tell
