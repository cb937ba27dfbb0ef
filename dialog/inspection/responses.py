"""Which turns are responses by the rules of a recipe."""

from __future__ import annotations

import numpy as np

from dialog.data.dialogue import Dialogue
from dialog.data.examples import ExampleRules, example_windows
from dialog.data.text_matching.fingerprints import Integers


class Responses:
    """Collects where the responses are among the turns of all dialogues, one byte a turn.

    Args:
        rules: How dialogues become examples.
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

    @property
    def places(self) -> Integers:
        """The responses, first turns among them where those are [responses]."""
        return np.flatnonzero(np.frombuffer(bytes(self._flags), dtype=np.bool_))
