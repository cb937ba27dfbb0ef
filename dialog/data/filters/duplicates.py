"""Filter: keep one of several equal training dialogues."""

from __future__ import annotations

from array import array
from collections.abc import Collection

import numpy as np

from dialog.config.components import lookup
from dialog.data.dialogue import Dialogue
from dialog.data.filters.filter import Splits
from dialog.data.text_matching.fingerprints import (
    NORMALISATIONS,
    DialogueHashes,
    Integers,
    repeats_earlier,
)


class DropDuplicates:
    """Drop each training dialogue that repeats the turns and facts of an earlier one; speakers of
    turns do not matter.

    Repetitions that a mixture creates through its `weight` are dropped too. The survey holds 8
    bytes per dropped dialogue; computing it takes 8 bytes per training turn.

    Args:
        normalisation: Equality of texts: `verbatim` (up to white space), `words` (lower case,
            without punctuation) or `letters` (also without spaces).
    """

    def __init__(self, normalisation: str = "verbatim") -> None:
        self.normalise = lookup(NORMALISATIONS, normalisation, "normalisation")

    def survey(self, splits: Splits) -> Integers:
        """Return the sorted record numbers of the dialogues to drop; dialogues without turns are
        never dropped.
        """
        hashes = DialogueHashes(self.normalise)
        numbers = array("q")
        for number, dialogue in splits["train"]:
            if dialogue.turns:
                hashes.add(dialogue)
                numbers.append(number)
        dialogues = hashes.contexts()[hashes.offsets[1:] - 1]
        return np.sort(np.array(numbers, dtype=np.int64)[repeats_earlier(dialogues)])

    def drops(self, surveyed: Integers, number: int, dialogue: Dialogue) -> Collection[int]:
        """Return all turns of a repeated dialogue."""
        position = int(np.searchsorted(surveyed, number))
        repeated = position < len(surveyed) and surveyed[position] == number
        return range(len(dialogue.turns)) if repeated else ()
