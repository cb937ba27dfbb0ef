"""Each training dialogue once."""

from __future__ import annotations

from array import array
from collections.abc import Collection

import numpy as np

from dialog.config.components import lookup
from dialog.data.dialogue import Dialogue
from dialog.data.filters.contract import Splits
from dialog.data.text_matching.fingerprints import NORMALISATIONS, Integers, Said, repeats


class DropDuplicates:
    """Drops each training dialogue that repeats an earlier one: the same turns to the same facts, whoever says them.

    What a mixture repeats for its `weight` are repeats too, and go.

    It knows 8 bytes a dropped dialogue; to find them takes 8 bytes a training turn.

    Args:
        normalisation: What counts as the same: `verbatim` (but for white space), `words` (lower case, without
            punctuation) or `letters` (without spaces too).
    """

    def __init__(self, normalisation: str = "verbatim") -> None:
        self.normalise = lookup(NORMALISATIONS, normalisation, "normalisation")

    def survey(self, splits: Splits) -> Integers:
        """The numbers of the dialogues to drop, in order; a dialogue without turns repeats none."""
        said, numbers = Said(self.normalise), array("q")
        for number, dialogue in splits["train"]:
            if dialogue.turns:
                said.add(dialogue)
                numbers.append(number)
        whole = said.histories()[said.offsets[1:] - 1]
        return np.sort(np.array(numbers, dtype=np.int64)[repeats(whole)])

    def drops(self, known: Integers, number: int, dialogue: Dialogue) -> Collection[int]:
        """All turns of a dialogue that repeats another."""
        place = int(np.searchsorted(known, number))
        return range(len(dialogue.turns)) if place < len(known) and known[place] == number else ()
