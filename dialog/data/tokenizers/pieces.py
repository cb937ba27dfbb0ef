"""The pieces of a Unigram model and their probabilities, learned from words (Kudo 2018, section 3.2).

`tokenizers` has a trainer too, which is left aside for two reasons: it takes as candidates only parts of words that are
followed by different characters, so not a word that nothing is ever added to, and splits spaces off most words (on
DailyDialog it needs 38 % more tokens than BPE); and its sums change with the process and the number of threads.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from dialog.data.tokenizers.lattice import Floats, Hashes, Integers, Lattice, Words

LONGEST = 16
"""The most bytes of a piece."""
CUT = 32
"""Words are learned from in parts of so many bytes, so that no probability is too small to be told from 0."""
MOST_BYTES = 2_000_000
"""The words seen most often count, up to so many bytes in all: what is left is rare, and memory is bounded."""
CANDIDATES = 10
"""So many times more pieces are taken at first than are wanted."""
SHRINK = 0.75
ROUNDS = 2
RARE = 0.5
"""A piece that is expected less often goes."""
FLOOR = 0.01
"""No single byte counts less: it may come in other texts."""


def learn_pieces(words: Mapping[bytes, int], most: int) -> dict[bytes, float]:
    """Log-probabilities of at most `most` pieces, all 256 bytes among them.

    Beginning with the parts of words that cover most, rounds of EM alternate with throwing out those pieces without
    which the words' likelihood falls least. The result depends on the words and their counts only.
    """
    kept = _frequent(words)
    counts = np.array(list(kept.values()), dtype=np.int64)
    data = Words(list(kept))
    pieces, hashes, probabilities = _candidates(data, counts, CANDIDATES * most)
    lattice = Lattice(data, hashes, longest=LONGEST)
    alone = Lattice(Words(pieces), hashes, longest=LONGEST)
    alive = np.arange(len(pieces))
    while True:
        for _ in range(ROUNDS):
            expected = np.maximum(lattice.expected(probabilities, counts), FLOOR)
            probabilities = expected / expected.sum()
        scores = np.log(probabilities)
        loss = expected * (scores - alone.best_of_parts(scores)[alive])  # infinite for a single byte
        loss[(expected < RARE) & np.isfinite(loss)] = -np.inf
        stay = _largest(loss, max(most, int(SHRINK * len(alive))))
        if stay.all():
            return {pieces[number]: float(score) for number, score in zip(alive, scores, strict=True)}
        for each in (lattice, alone):
            each.keep(stay)
        alive, probabilities = alive[stay], probabilities[stay]


def _frequent(words: Mapping[bytes, int]) -> dict[bytes, int]:
    """The words seen most often, in parts, up to `MOST_BYTES`, in an order that is theirs."""
    parts: dict[bytes, int] = {}
    for word, count in words.items():
        for start in range(0, len(word), CUT):
            part = word[start : start + CUT]
            parts[part] = parts.get(part, 0) + count
    kept, size = {}, 0
    for part, count in sorted(parts.items(), key=lambda item: (-item[1], item[0])):
        size += len(part)
        if size > MOST_BYTES:
            break
        kept[part] = count
    return kept | {bytes([byte]): kept.get(bytes([byte]), 0) for byte in range(256)}


def _candidates(words: Words, counts: Integers, most: int) -> tuple[list[bytes], Hashes, Floats]:
    """Parts of words that occur twice or more: those with the most bytes in all, and every single byte."""
    hashes, starts, lengths, often = [], [], [], []
    for length, places, found in words.windows(LONGEST):
        if not len(places):
            break
        unique, first, inverse = np.unique(found, return_index=True, return_inverse=True)
        frequency = np.bincount(inverse, counts[words.owner[places]])
        there = (frequency >= 2) | (length == 1)
        hashes.append(unique[there])
        starts.append(places[first[there]])
        lengths.append(np.full(there.sum(), length))
        often.append(frequency[there])
    sizes, frequencies, begins = (np.concatenate(column) for column in (lengths, often, starts))
    stay = _largest(np.where(sizes == 1, np.inf, sizes * frequencies), most)
    pieces = [words.text[at : at + size].tobytes() for at, size in zip(begins[stay], sizes[stay], strict=True)]
    probabilities = np.maximum(frequencies[stay], FLOOR)
    return pieces, np.concatenate(hashes)[stay], probabilities / probabilities.sum()


def _largest(values: Floats, most: int) -> NDArray[np.bool_]:
    """Where the `most` largest values are, of equal ones the first; never where there is minus infinity."""
    stay = np.zeros(len(values), dtype=bool)
    stay[np.argsort(-values, kind="stable")[:most]] = True
    return stay & (values > -np.inf)
