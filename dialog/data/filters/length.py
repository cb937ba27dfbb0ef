"""Filter: drop responses that are too short or too long."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from dialog.data.dialogue import Dialogue
from dialog.data.filters.filter import Splits
from dialog.errors import UserError


class DropByLength:
    """Drop responses outside the limits on words (separated by white space) or characters; contexts
    are not filtered.

    Args:
        min_words: Fewest words of a response.
        max_words: Most words; None for no limit.
        min_characters: Fewest characters, without white space at the ends.
        max_characters: Most characters; None for no limit.
    """

    def __init__(
        self,
        min_words: int = 0,
        max_words: int | None = None,
        min_characters: int = 0,
        max_characters: int | None = None,
    ) -> None:
        for unit, least, most in (
            ("words", min_words, max_words),
            ("characters", min_characters, max_characters),
        ):
            if most is not None and most < max(least, 1):
                raise UserError(
                    f"max_{unit} is {most}, which drops every response; give at least"
                    f" {max(least, 1)}"
                )
        self.words = (min_words, max_words)
        self.characters = (min_characters, max_characters)

    def survey(self, splits: Splits) -> NDArray[np.uint64]:
        """Return an empty array: each decision needs its response alone."""
        return np.empty(0, dtype=np.uint64)

    def drops(
        self, surveyed: NDArray[np.uint64], number: int, dialogue: Dialogue
    ) -> Collection[int]:
        """Return the turns outside the limits."""
        return [index for index, turn in enumerate(dialogue.turns) if not self._fits(turn.text)]

    def _fits(self, text: str) -> bool:
        return _within(len(text.split()), *self.words) and _within(
            len(text.strip()), *self.characters
        )


def _within(size: int, least: int, most: int | None) -> bool:
    return least <= size and (most is None or size <= most)
