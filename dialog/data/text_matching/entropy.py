"""Entropy of the turns that an utterance answers, or that answer it: high for utterances that fit
anywhere.

Csáky, Purgai, Recski 2019, "Improving Neural Conversational Models with Entropy-Based Data
Filtering", https://aclanthology.org/P19-1567, section 3, with the clustering method "identity":
equal utterances form one cluster.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.data.text_matching.fingerprints import Hashes, Integers

ROUNDING = 1e-9
"""Largest rounding error of an entropy, in bits."""


class Entropies(NamedTuple):
    """Per distinct utterance, sorted by hash: hash, number of occurrences, and entropy of its
    partners in bits [N].
    """

    utterances: Hashes
    counts: Integers
    bits: NDArray[np.float64]

    def above(self, threshold: float) -> NDArray[np.bool_]:
        """Return which entropies exceed a threshold in bits by more than rounding [N]."""
        return self.bits > threshold + ROUNDING


def entropies(utterances: Hashes, partners: Hashes) -> Entropies:
    """Compute H(u) = - sum over partners p of P(p | u) log2 P(p | u) from the pairs (u, p) of a
    corpus [N].

    With responses as utterances and the turns that they answer as partners this is the source
    entropy H_src of the paper, high for a response that fits anywhere. With the roles exchanged it
    is the target entropy H_tgt.
    """
    order = np.lexsort((partners, utterances))
    utterances = utterances[order]
    partners = partners[order]
    new = np.ones(len(order), dtype=bool)
    new[1:] = utterances[1:] != utterances[:-1]
    pairs = new.copy()
    pairs[1:] |= partners[1:] != partners[:-1]
    starts = np.flatnonzero(pairs)
    sizes = np.diff(np.append(starts, len(order))).astype(np.float64)
    firsts = np.flatnonzero(new[starts])
    if not len(firsts):
        return Entropies(utterances, np.empty(0, np.int64), np.empty(0))
    counts = np.add.reduceat(sizes, firsts)
    weighted = np.add.reduceat(sizes * np.log2(sizes), firsts)
    return Entropies(
        utterances[new],
        counts.astype(np.int64),
        np.maximum(0.0, np.log2(counts) - weighted / counts),
    )
