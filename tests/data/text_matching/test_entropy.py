"""Entropy of utterances, compared with the formula over counted pairs."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.text_matching.entropy import entropies
from dialog.data.text_matching.spilled import SortedRows, SortedRuns

numbers = st.integers(0, 4)
EMPTY = SortedRows(*np.empty((2, 0), np.uint64), np.empty((0, 2), np.uint64))


@given(st.lists(st.tuples(numbers, numbers)))
def test_equals_the_formula(pairs: list[tuple[int, int]]) -> None:
    array = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    runs = SortedRuns()
    for first, second in array:
        runs.add(first[None], second[None], np.array([[1, second == 0]]))
    result = entropies(next(runs.ranges(), EMPTY))
    assert result.utterances.tolist() == sorted({utterance for utterance, _ in pairs})
    for utterance, count, bits, responses in zip(*result, strict=True):
        assert responses == pairs.count((utterance, 0))
        partners = Counter(partner for other, partner in pairs if other == utterance)
        assert count == partners.total()
        shares = [number / partners.total() for number in partners.values()]
        assert bits == pytest.approx(-sum(share * math.log2(share) for share in shares), abs=1e-12)
        assert bits >= 0
