"""Entropy of the turns that an utterance answers, or that answer it: high for utterances that fit
anywhere.

Csáky, Purgai, Recski 2019, "Improving Neural Conversational Models with Entropy-Based Data
Filtering", https://aclanthology.org/P19-1567, section 3, with the clustering method "identity":
equal utterances form one cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.data.text_matching.fingerprints import Hashes, Integers
from dialog.data.text_matching.spilled import SortedRows, SortedRuns, SpilledHashes

ROUNDING = 1e-9
"""Largest rounding error of an entropy, in bits."""


TARGET = "target"
SOURCE = "source"
SIDES = (TARGET, SOURCE)
"""Entropy of a response over the turns that it answers; of a turn over its responses."""


class Entropies(NamedTuple):
    """Per distinct utterance, sorted by hash [N]: hash, number of pairs, entropy of its partners in
    bits, and number of the responses that the utterance decides on.
    """

    utterances: Hashes
    counts: Integers
    bits: NDArray[np.float64]
    responses: Integers

    def above(self, threshold: float) -> NDArray[np.bool_]:
        """Return which entropies exceed a threshold in bits by more than rounding [N]."""
        return self.bits > threshold + ROUNDING


def entropies(pairs: SortedRows) -> Entropies:
    """Compute H(u) = - sum over partners p of P(p | u) log2 P(p | u) from distinct pairs (u, p),
    whose weights are numbers of pairs and of responses.

    With responses as utterances and the turns that they answer as partners this is the source
    entropy H_src of the paper, high for a response that fits anywhere. With the roles exchanged it
    is the target entropy H_tgt.
    """
    if not len(pairs.first):
        return Entropies(pairs.first, *(np.empty(0, kind) for kind in (np.int64, float, np.int64)))
    new = np.ones(len(pairs.first), dtype=bool)
    new[1:] = pairs.first[1:] != pairs.first[:-1]
    starts = np.flatnonzero(new)
    numbers, responses = pairs.weights.T.astype(np.int64)
    counts = np.add.reduceat(numbers, starts)
    weighted = np.add.reduceat(numbers * np.log2(np.maximum(numbers, 1)), starts)
    at_least_one = np.maximum(counts, 1)
    bits = np.maximum(0.0, np.log2(at_least_one) - weighted / at_least_one)
    return Entropies(pairs.first[new], counts, bits, np.add.reduceat(responses, starts))


def corpus_entropies(hashes: SpilledHashes, side: str) -> Iterator[Entropies]:
    """Yield the entropies of all utterances on a side, sorted by hash, range by range.

    A response decides about itself on the side `target`, and the turn before it on `source`. A
    first turn is in no pair.
    """
    runs = SortedRuns()
    for chunk in hashes.chunks():
        replies = chunk.replies
        utterances = chunk.turns[replies if side == TARGET else replies - 1]
        partners = chunk.turns[replies - 1 if side == TARGET else replies]
        runs.add(utterances, partners, _weights(1, chunk.responses[replies]))
        if side == TARGET:
            firsts = chunk.turns[np.setdiff1d(np.flatnonzero(chunk.responses), replies)]
            runs.add(firsts, np.zeros_like(firsts), _weights(0, np.ones(len(firsts))))
    for pairs in runs.ranges():
        yield entropies(pairs)


def _weights(pairs: int, responses: NDArray[Any]) -> NDArray[np.float64]:
    return np.column_stack([np.full(len(responses), pairs), responses])
