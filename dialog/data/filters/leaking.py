"""No training dialogue that says what validation or test say."""

from __future__ import annotations

from collections.abc import Collection

from dialog.data.dialogue import Dialogue
from dialog.data.filters.contract import Splits
from dialog.data.text_matching.fingerprints import Hashes
from dialog.data.text_matching.leaks import MINIMUM_WORDS, all_long_pairs, leaks
from dialog.errors import UserError


class DropLeakingDialogues:
    """Drop every training dialogue that shares a long pair with validation or test (see `text_matching.leaks`).

    Whole dialogues, since near repeats of the shared pair stand beside it. Of DailyDialog's 11,118 dialogues 609 go.
    It knows 8 bytes a long pair of validation and test, and does not read the training split.

    Args:
        minimum_words: The words of the shortest response of a long pair; give more where a character is a word, as in
            Chinese, whose formulas have four.
    """

    def __init__(self, minimum_words: int = MINIMUM_WORDS) -> None:
        if minimum_words < 1:
            raise UserError(f"minimum_words is {minimum_words}; give at least 1")
        self.minimum_words = minimum_words

    def survey(self, splits: Splits) -> Hashes:
        """The numbers of the long pairs of validation and test, in order."""
        evaluated = (dialogue for split in ("validation", "test") for _, dialogue in splits[split])
        return all_long_pairs(evaluated, self.minimum_words)

    def drops(self, known: Hashes, number: int, dialogue: Dialogue) -> Collection[int]:
        """All turns of a dialogue that leaks."""
        return range(len(dialogue.turns)) if leaks(dialogue, known, self.minimum_words) else ()
