"""No responses that fit anywhere, or to what anything could be said to (Csáky et al. 2019)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator

import numpy as np

from dialog.config.components import lookup
from dialog.data.dialogue import Dialogue
from dialog.data.filters.contract import Splits
from dialog.data.text_matching.entropy import entropies
from dialog.data.text_matching.fingerprints import NORMALISATIONS, Hashes, Said, among, hashes, joined
from dialog.errors import UserError

TARGET, SOURCE = np.uint64(1), np.uint64(2)
SIDES = {"target": (TARGET,), "source": (SOURCE,), "both": (TARGET, SOURCE)}


class DropOpenPairs:
    """Drops the responses of pairs (previous turn, response) with an utterance whose entropy is above a threshold.

    `target` looks at the response: the entropy of what it answers in the training split is high for "i see .".
    `source` looks at the previous turn: the entropy of its responses is high for "what do you mean ?". Csáky, Purgai,
    Recski 2019, https://aclanthology.org/P19-1567, the IDENTITY method; they found `target` to help most, with a
    threshold of 1 bit on DailyDialog (6.98 % of the pairs go; 12.2 % with `both`) and of 4 on Cornell (7.39 %, 14.1 %).
    A first turn goes where its utterance, as a response, would.

    It knows 8 bytes an utterance above the threshold; to find them takes 40 bytes a training turn.

    Args:
        threshold: In bits.
        side: Whose entropy counts: `target`, `source` or `both`.
        normalisation: What makes two utterances one: `verbatim` (as in the paper), `words` or `letters`.
    """

    def __init__(self, threshold: float = 1.0, side: str = "target", normalisation: str = "verbatim") -> None:
        if not (math.isfinite(threshold) and threshold >= 0):
            raise UserError(f"threshold is {threshold}; give bits, 0 or more")
        self.threshold = threshold
        self.sides = lookup(SIDES, side, "side")
        self.normalise = lookup(NORMALISATIONS, normalisation, "normalisation")

    def survey(self, splits: Splits) -> Hashes:
        """The utterances that are too open on a side, each joined with its side, in order."""
        said = Said(self.normalise)
        for _, dialogue in splits["train"]:
            said.add(dialogue)
        turns, answers = said.turns, said.answers
        pairs = {TARGET: (turns[answers], turns[answers - 1]), SOURCE: (turns[answers - 1], turns[answers])}
        found = [joined(self._open(*pairs[side]), np.array([side])) for side in self.sides]
        return np.sort(np.concatenate(found))

    def drops(self, known: Hashes, number: int, dialogue: Dialogue) -> Collection[int]:
        """The turns that are too open as responses, and those that answer a turn that is too open."""
        turns = hashes(self.normalise(turn.text) for turn in dialogue.turns)
        return sorted(set(self._dropped(known, turns)))

    def _open(self, utterances: Hashes, partners: Hashes) -> Hashes:
        found = entropies(utterances, partners)
        return found.utterances[found.above(self.threshold)]

    def _dropped(self, known: Hashes, turns: Hashes) -> Iterator[int]:
        for side in self.sides:
            later = 0 if side == TARGET else 1
            for turn in np.flatnonzero(among(joined(turns, np.array([side])), known)).tolist():
                if turn + later < len(turns):
                    yield turn + later
