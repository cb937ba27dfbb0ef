"""The lattice, compared with an enumeration of all segmentations."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.tokenizers.lattice import Lattice, WordBytes

LONGEST = 4
words = st.lists(st.text("abc", min_size=1, max_size=7).map(str.encode), min_size=1, max_size=4)
longer = st.text("abc", min_size=2, max_size=LONGEST).map(str.encode)
vocabularies = st.lists(longer, max_size=6, unique=True).map(lambda pieces: [b"a", b"b", b"c", *pieces])


def segmentations(word: bytes, pieces: list[bytes]) -> Iterator[list[int]]:
    if not word:
        yield []
    for number, piece in enumerate(pieces):
        if word.startswith(piece):
            yield from ([number, *rest] for rest in segmentations(word[len(piece) :], pieces))


def lattice_of(words: list[bytes], pieces: list[bytes]) -> Lattice:
    hashes = {}
    data = WordBytes(pieces)
    for length, starts, substrings in data.substrings(LONGEST):
        whole = (data.room[starts] == length) & (data.lengths[data.owner[starts]] == length)
        hashes |= dict(zip(data.owner[starts[whole]].tolist(), substrings[whole], strict=True))
    return Lattice(WordBytes(words), np.array([hashes[n] for n in range(len(pieces))]), longest=LONGEST)


@given(words, vocabularies)
def test_expected_counts_sum_over_all_segmentations(words: list[bytes], pieces: list[bytes]) -> None:
    generator = np.random.default_rng(len(pieces))
    probabilities = generator.dirichlet(np.ones(len(pieces)))
    counts = generator.integers(1, 9, len(words))
    expected = np.zeros(len(pieces))
    for word, count in zip(words, counts, strict=True):
        masses = [(numbers, math.prod(probabilities[numbers])) for numbers in segmentations(word, pieces)]
        total = sum(mass for _, mass in masses)
        for numbers, mass in masses:
            np.add.at(expected, numbers, count * mass / total)
    assert lattice_of(words, pieces).expected_counts(probabilities, counts) == pytest.approx(expected)


@given(words, vocabularies)
def test_best_split_scores_use_two_or_more_pieces(words: list[bytes], pieces: list[bytes]) -> None:
    scores = np.log(np.random.default_rng(len(pieces)).dirichlet(np.ones(len(pieces))))
    splits = ([numbers for numbers in segmentations(word, pieces) if len(numbers) > 1] for word in words)
    best = [max((sum(scores[numbers]) for numbers in word_splits), default=-math.inf) for word_splits in splits]
    assert lattice_of(words, pieces).best_split_scores(scores) == pytest.approx(best)


@given(words, vocabularies)
def test_removed_pieces_leave_no_trace(words: list[bytes], pieces: list[bytes]) -> None:
    kept = np.array([len(piece) != 2 for piece in pieces])
    remaining = [piece for piece in pieces if len(piece) != 2]
    lattice = lattice_of(words, pieces)
    lattice.keep(kept)
    probabilities, counts = np.full(len(remaining), 1 / len(remaining)), np.ones(len(words), dtype=np.int64)
    expected = lattice_of(words, remaining).expected_counts(probabilities, counts)
    assert lattice.expected_counts(probabilities, counts) == pytest.approx(expected)
