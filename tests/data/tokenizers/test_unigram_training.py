"""Pieces of a unigram LM: their form, determinism and likelihood."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.data.tokenizers.unigram_training import train_pieces


@settings(max_examples=40)
@given(st.dictionaries(st.binary(min_size=1, max_size=80), st.integers(1, 50), max_size=8), st.integers(256, 300))
def test_pieces_are_bytes_and_substrings(words: dict[bytes, int], most: int) -> None:
    pieces = train_pieces(words, most)
    assert {bytes([byte]) for byte in range(256)} <= set(pieces)
    assert len(pieces) <= most
    assert sum(map(math.exp, pieces.values())) == pytest.approx(1)
    assert all(any(piece in word for word in words) for piece in pieces if len(piece) > 1)
    assert train_pieces(dict(reversed(words.items())), most) == pieces


def test_likelihood_grows_with_the_number_of_pieces() -> None:
    words = {b" the": 50, b" then": 20, b" other": 30, b" mother": 10, b"the": 9}

    def segmentation_scores(word: bytes, pieces: dict[bytes, float]) -> Iterator[float]:
        if not word:
            yield 0.0
        for end in range(1, len(word) + 1):
            if (score := pieces.get(word[:end])) is not None:
                yield from (score + rest for rest in segmentation_scores(word[end:], pieces))

    def likelihood(most: int) -> float:
        pieces = train_pieces(words, most)
        return sum(count * max(segmentation_scores(word, pieces)) for word, count in words.items())

    assert likelihood(256) < likelihood(257) < likelihood(259) < likelihood(264)
