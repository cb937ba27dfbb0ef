"""Filter: drop responses that fit any context, and responses to turns that allow any answer (Csáky
et al. 2019).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import numpy as np

from dialog.config.components import lookup
from dialog.data.dialogue import Dialogue
from dialog.data.filters.filter import Splits
from dialog.data.text_matching.entropy import entropies
from dialog.data.text_matching.fingerprints import (
    NORMALISATIONS,
    DialogueHashes,
    Hashes,
    contained_in,
    hash_pairs,
    hash_texts,
)
from dialog.errors import UserError

TARGET = np.uint64(1)
SOURCE = np.uint64(2)
SIDES = {"target": (TARGET,), "source": (SOURCE,), "both": (TARGET, SOURCE)}


class DropOpenPairs:
    """Drop the responses of pairs (previous turn, response) that contain an utterance of high
    entropy.

    `target` tests the response: the entropy of the turns that it answers in the training split is
    high for "i see .".
    `source` tests the previous turn: the entropy of its responses is high for "what do you mean ?".
    This is the IDENTITY method of Csáky, Purgai, Recski 2019, https://aclanthology.org/P19-1567.
    They found `target` to help most, with a threshold of 1 bit on DailyDialog (drops 6.98 % of the
    pairs; `both` drops 12.2 %) and of 4 bits on Cornell (7.39 %, 14.1 %). A first turn is dropped
    if its utterance would be dropped as a response.

    The survey holds 8 bytes per utterance above the threshold; computing it takes 40 bytes per
    training turn.

    Args:
        threshold: Largest entropy that is kept, in bits.
        side: Side of the pair that is tested: `target`, `source` or `both`.
        normalisation: Equality of utterances: `verbatim` (as in the paper), `words` or `letters`.
    """

    def __init__(
        self, threshold: float = 1.0, side: str = "target", normalisation: str = "verbatim"
    ) -> None:
        if not (math.isfinite(threshold) and threshold >= 0):
            raise UserError(f"threshold is {threshold}; give a number of bits, 0 or more")
        self.threshold = threshold
        self.sides = lookup(SIDES, side, "side")
        self.normalise = lookup(NORMALISATIONS, normalisation, "normalisation")

    def survey(self, splits: Splits) -> Hashes:
        """Return the sorted hashes of (utterance, side) for all utterances above the threshold on a
        tested side.
        """
        hashes = DialogueHashes(self.normalise)
        for _, dialogue in splits["train"]:
            hashes.add(dialogue)
        turns = hashes.turns
        replies = hashes.reply_positions
        pairs = {
            TARGET: (turns[replies], turns[replies - 1]),
            SOURCE: (turns[replies - 1], turns[replies]),
        }
        above = [
            hash_pairs(self._above_threshold(*pairs[side]), np.array([side])) for side in self.sides
        ]
        return np.sort(np.concatenate(above))

    def drops(self, surveyed: Hashes, number: int, dialogue: Dialogue) -> Collection[int]:
        """Return the responses of all pairs above the threshold."""
        turns = hash_texts(self.normalise(turn.text) for turn in dialogue.turns)
        return sorted(set(self._dropped(surveyed, turns)))

    def _above_threshold(self, utterances: Hashes, partners: Hashes) -> Hashes:
        result = entropies(utterances, partners)
        return result.utterances[result.above(self.threshold)]

    def _dropped(self, surveyed: Hashes, turns: Hashes) -> Iterator[int]:
        for side in self.sides:
            offset = 0 if side == TARGET else 1  # from the tested turn to the response
            for turn in np.flatnonzero(
                contained_in(hash_pairs(turns, np.array([side])), surveyed)
            ).tolist():
                if turn + offset < len(turns):
                    yield turn + offset
