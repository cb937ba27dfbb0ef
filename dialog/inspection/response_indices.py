"""Indices of the responses among all turns of a split."""

from __future__ import annotations

import numpy as np

from dialog.data.dialogue import Dialogue
from dialog.data.examples import ExampleRules, example_windows
from dialog.data.text_matching.fingerprints import Integers


class ResponseIndices:
    """Collects which turns are responses, in one byte per turn.

    Args:
        rules: Rules that turn dialogues into examples.
    """

    def __init__(self, rules: ExampleRules) -> None:
        self.rules = rules
        self._flags = bytearray()

    def add(self, dialogue: Dialogue) -> None:
        """Append a dialogue."""
        flags = bytearray(len(dialogue.turns))
        for _, response in example_windows(dialogue, self.rules):
            flags[response] = True
        self._flags += flags

    def array(self) -> Integers:
        """Return the indices, with first turns if the rules make them responses [responses]."""
        return np.flatnonzero(np.frombuffer(bytes(self._flags), dtype=np.bool_))
