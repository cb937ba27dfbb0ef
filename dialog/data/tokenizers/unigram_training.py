"""Training of a unigram LM: pieces and their probabilities by EM and pruning (Kudo 2018, section 3.2).

The trainer of `tokenizers` is not used, for two reasons. Its candidates are only substrings that are followed by
several different characters; it therefore misses words that are never extended and separates most words from their
space (on DailyDialog it needs 38 % more tokens than BPE). And its sums depend on the process and the number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dialog.data.tokenizers.lattice import Floats, Hashes, Integers, Lattice, WordBytes

LONGEST = 16
"""Most bytes of a piece."""
WORD_PART = 32
"""Longer words are trained on in parts of this many bytes, so that no probability underflows to 0."""
MOST_BYTES = 2_000_000
"""Total size of the training words in bytes: the most frequent ones are used, and memory is bounded."""
CANDIDATES = 10
"""Number of initial candidates per wanted piece."""
SHRINK = 0.75
"""Share of the pieces that each pruning keeps."""
ROUNDS = 2
"""EM rounds between two prunings."""
RARE = 0.5
"""Pieces with a lower expected count are removed."""
FLOOR = 0.01
"""Lowest expected count of a single byte, which other texts may need."""


def train_pieces(words: Mapping[bytes, int], most: int) -> dict[bytes, float]:
    """Return the log-probabilities of at most `most` pieces, including all 256 bytes.

    Training starts from the substrings that cover the most bytes. Rounds of EM alternate with removing the pieces whose
    loss reduces the likelihood of the words least. The result depends only on the words and their counts.
    """
    kept = _most_frequent(words)
    counts = np.array(list(kept.values()), dtype=np.int64)
    data = WordBytes(list(kept))
    pieces, hashes, probabilities = _candidates(data, counts, CANDIDATES * most)
    word_lattice = Lattice(data, hashes, longest=LONGEST)
    piece_lattice = Lattice(WordBytes(pieces), hashes, longest=LONGEST)
    alive = np.arange(len(pieces))
    while True:
        for _ in range(ROUNDS):
            expected = np.maximum(word_lattice.expected_counts(probabilities, counts), FLOOR)
            probabilities = expected / expected.sum()
        scores = np.log(probabilities)
        loss = expected * (scores - piece_lattice.best_split_scores(scores)[alive])  # infinite for a single byte
        loss[(expected < RARE) & np.isfinite(loss)] = -np.inf
        stay = _largest(loss, max(most, int(SHRINK * len(alive))))
        if stay.all():
            return {pieces[number]: float(score) for number, score in zip(alive, scores, strict=True)}
        for lattice in (word_lattice, piece_lattice):
            lattice.keep(stay)
        alive, probabilities = alive[stay], probabilities[stay]


def _most_frequent(words: Mapping[bytes, int]) -> dict[bytes, int]:
    """Return the most frequent words up to `MOST_BYTES`, in parts, in an order independent of the input's."""
    parts: dict[bytes, int] = {}
    for word, count in words.items():
        for start in range(0, len(word), WORD_PART):
            part = word[start : start + WORD_PART]
            parts[part] = parts.get(part, 0) + count
    kept, size = {}, 0
    for part, count in sorted(parts.items(), key=lambda item: (-item[1], item[0])):
        size += len(part)
        if size > MOST_BYTES:
            break
        kept[part] = count
    return kept | {bytes([byte]): kept.get(bytes([byte]), 0) for byte in range(256)}


def _candidates(words: WordBytes, counts: Integers, most: int) -> tuple[list[bytes], Hashes, Floats]:
    """Return the substrings with two or more occurrences that cover the most bytes, and every single byte."""
    hashes, starts, lengths, frequencies = [], [], [], []
    for length, positions, substrings in words.substrings(LONGEST):
        if not len(positions):
            break
        unique, first, inverse = np.unique(substrings, return_index=True, return_inverse=True)
        frequency = np.bincount(inverse, counts[words.owner[positions]])
        repeated = (frequency >= 2) | (length == 1)
        hashes.append(unique[repeated])
        starts.append(positions[first[repeated]])
        lengths.append(np.full(repeated.sum(), length))
        frequencies.append(frequency[repeated])
    sizes, frequency, begins = (np.concatenate(column) for column in (lengths, frequencies, starts))
    stay = _largest(np.where(sizes == 1, np.inf, sizes * frequency), most)
    pieces = [words.text[at : at + size].tobytes() for at, size in zip(begins[stay], sizes[stay], strict=True)]
    probabilities = np.maximum(frequency[stay], FLOOR)
    return pieces, np.concatenate(hashes)[stay], probabilities / probabilities.sum()


def _largest(values: Floats, most: int) -> NDArray[np.bool_]:
    """Mark the `most` largest values, the first of equal ones; minus infinity is never marked."""
    stay = np.zeros(len(values), dtype=bool)
    stay[np.argsort(-values, kind="stable")[:most]] = True
    return stay & (values > -np.inf)
