"""How open an utterance is: the entropy of what it answers, or of what answers it.

Csáky, Purgai, Recski 2019, "Improving Neural Conversational Models with Entropy-Based Data Filtering",
https://aclanthology.org/P19-1567, section 3, where utterances are one when they are identical ("identity").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.data.text_matching.fingerprints import Hashes, Integers

ROUNDING = 1e-9
"""In bits: what an entropy may be off by."""


class Entropies(NamedTuple):
    """Of each utterance its number, in order, how often it occurs, and the entropy of its partners in bits [N]."""

    utterances: Hashes
    counts: Integers
    bits: NDArray[np.float64]

    def above(self, threshold: float) -> NDArray[np.bool_]:
        """Which are more open than so many bits, and not by rounding alone [N]."""
        return self.bits > threshold + ROUNDING


def entropies(utterances: Hashes, partners: Hashes) -> Entropies:
    """H(u) = - sum over partners p of P(p | u) log2 P(p | u), from the pairs (u, p) of a corpus [N].

    With responses as utterances and what they answer as partners this is the source entropy of the paper, H_src: high
    for a response that fits anywhere. The other way round it is the target entropy, H_tgt.
    """
    order = np.lexsort((partners, utterances))
    utterances, partners = utterances[order], partners[order]
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
    weighed = np.add.reduceat(sizes * np.log2(sizes), firsts)
    return Entropies(utterances[new], counts.astype(np.int64), np.maximum(0.0, np.log2(counts) - weighed / counts))
