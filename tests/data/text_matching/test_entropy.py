"""Entropy of utterances, compared with the formula over counted pairs."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.text_matching.entropy import entropies

numbers = st.integers(0, 4)


@given(st.lists(st.tuples(numbers, numbers)))
def test_equals_the_formula(pairs: list[tuple[int, int]]) -> None:
    array = np.array(pairs, dtype=np.uint64).reshape(-1, 2)
    result = entropies(array[:, 0], array[:, 1])
    assert result.utterances.tolist() == sorted({utterance for utterance, _ in pairs})
    for utterance, count, bits in zip(*result, strict=True):
        partners = Counter(partner for other, partner in pairs if other == utterance)
        assert count == partners.total()
        shares = [number / partners.total() for number in partners.values()]
        assert bits == pytest.approx(-sum(share * math.log2(share) for share in shares), abs=1e-12)
        assert bits >= 0
