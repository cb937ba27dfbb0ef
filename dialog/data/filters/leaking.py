"""Filter: drop training dialogues that leak into validation or test."""

from __future__ import annotations

from collections.abc import Collection

from dialog.data.dialogue import Dialogue
from dialog.data.filters.filter import Splits
from dialog.data.text_matching.fingerprints import Hashes
from dialog.data.text_matching.leaks import MINIMUM_WORDS, has_leak, hash_all_long_pairs
from dialog.errors import UserError


class DropLeakingDialogues:
    """Drop every training dialogue that shares a long pair with validation or test (see
    `text_matching.leaks`).

    Whole dialogues are dropped because near repeats of the shared pair surround it: 609 of
    DailyDialog's 11,118. The survey holds 8 bytes per long pair of validation and test; the
    training split is not surveyed.

    Args:
        minimum_words: Fewest words of the response of a long pair. Raise it where each character is
            a word, as in Chinese, whose formulas have four characters.
    """

    def __init__(self, minimum_words: int = MINIMUM_WORDS) -> None:
        if minimum_words < 1:
            raise UserError(f"minimum_words is {minimum_words}; give at least 1")
        self.minimum_words = minimum_words

    def survey(self, splits: Splits) -> Hashes:
        """Return the sorted hashes of the long pairs of validation and test."""
        evaluated = (dialogue for split in ("validation", "test") for _, dialogue in splits[split])
        return hash_all_long_pairs(evaluated, self.minimum_words)

    def drops(self, surveyed: Hashes, number: int, dialogue: Dialogue) -> Collection[int]:
        """Return all turns of a leaking dialogue."""
        return (
            range(len(dialogue.turns)) if has_leak(dialogue, surveyed, self.minimum_words) else ()
        )
