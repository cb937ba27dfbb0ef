"""The lattice against all ways to write a word, one by one."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.tokenizers.lattice import Lattice, WordBytes
from dialog.data.tokenizers.unigram_training import train_pieces

LONGEST = 4
words = st.lists(st.text("abc", min_size=1, max_size=7).map(str.encode), min_size=1, max_size=4)
longer = st.text("abc", min_size=2, max_size=LONGEST).map(str.encode)
vocabularies = st.lists(longer, max_size=6, unique=True).map(lambda pieces: [b"a", b"b", b"c", *pieces])


def ways(word: bytes, pieces: list[bytes]) -> Iterator[list[int]]:
    """All ways to write a word as pieces."""
    if not word:
        yield []
    for number, piece in enumerate(pieces):
        if word.startswith(piece):
            yield from ([number, *rest] for rest in ways(word[len(piece) :], pieces))


def built(given_words: list[bytes], pieces: list[bytes]) -> Lattice:
    hashes = {}
    data = WordBytes(pieces)
    for length, starts, found in data.substrings(LONGEST):
        whole = (data.room[starts] == length) & (data.lengths[data.owner[starts]] == length)
        hashes |= dict(zip(data.owner[starts[whole]].tolist(), found[whole], strict=True))
    return Lattice(WordBytes(given_words), np.array([hashes[n] for n in range(len(pieces))]), longest=LONGEST)


@given(words, vocabularies, st.randoms(use_true_random=False))
def test_expected_counts_are_sums_over_all_ways(given_words: list[bytes], pieces: list[bytes], random: object) -> None:
    generator = np.random.default_rng(len(pieces))
    probabilities = generator.dirichlet(np.ones(len(pieces)))
    counts = generator.integers(1, 9, len(given_words))
    expected = np.zeros(len(pieces))
    for word, count in zip(given_words, counts, strict=True):
        each = [(way, math.prod(probabilities[way])) for way in ways(word, pieces)]
        total = sum(mass for _, mass in each)
        for way, mass in each:
            np.add.at(expected, way, count * mass / total)
    assert built(given_words, pieces).expected_counts(probabilities, counts) == pytest.approx(expected)


@given(words, vocabularies)
def test_the_best_of_parts_is_the_best_way_of_two_or_more(given_words: list[bytes], pieces: list[bytes]) -> None:
    scores = np.log(np.random.default_rng(len(pieces)).dirichlet(np.ones(len(pieces))))
    best = [
        max((sum(scores[way]) for way in ways(word, pieces) if len(way) > 1), default=-math.inf) for word in given_words
    ]
    assert built(given_words, pieces).best_split_scores(scores) == pytest.approx(best)


@given(words, vocabularies)
def test_pieces_that_go_are_as_if_they_had_not_been(given_words: list[bytes], pieces: list[bytes]) -> None:
    kept = np.array([len(piece) != 2 for piece in pieces])
    left = [piece for piece in pieces if len(piece) != 2]
    lattice = built(given_words, pieces)
    lattice.keep(kept)
    probabilities, counts = np.full(len(left), 1 / len(left)), np.ones(len(given_words), dtype=np.int64)
    assert lattice.expected_counts(probabilities, counts) == pytest.approx(
        built(given_words, left).expected_counts(probabilities, counts)
    )


@given(st.dictionaries(st.binary(min_size=1, max_size=80), st.integers(1, 50), max_size=8), st.integers(256, 300))
def test_pieces_are_bytes_and_probable_parts(seen: dict[bytes, int], most: int) -> None:
    pieces = train_pieces(seen, most)
    assert {bytes([byte]) for byte in range(256)} <= set(pieces)
    assert len(pieces) <= most
    assert sum(map(math.exp, pieces.values())) == pytest.approx(1)
    assert all(any(piece in word for word in seen) for piece in pieces if len(piece) > 1)
    assert train_pieces(dict(reversed(seen.items())), most) == pieces


def test_likelihood_grows_with_the_pieces() -> None:
    seen = {b" the": 50, b" then": 20, b" other": 30, b" mother": 10, b"the": 9}

    def likelihood(most: int) -> float:
        scores = train_pieces(seen, most)
        names = list(scores)
        best = (max(sum(scores[names[each]] for each in way) for way in ways(word, names)) for word in seen)
        return sum(count * score for count, score in zip(seen.values(), best, strict=True))

    assert likelihood(256) < likelihood(257) < likelihood(259) < likelihood(264)
