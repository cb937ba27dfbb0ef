"""Filters of the training split: one survey of the whole corpus, then an independent decision per
dialogue.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dialog.config.components import Family, lookup
from dialog.data.dialogue import Dialogue
from dialog.data.text_matching.entropy import SOURCE, TARGET, corpus_entropies
from dialog.data.text_matching.fingerprints import (
    NORMALISATIONS,
    Hashes,
    Integers,
    contained_in,
    hash_pairs,
    hash_texts,
)
from dialog.data.text_matching.leaks import MINIMUM_WORDS, has_leak, hash_all_long_pairs
from dialog.data.text_matching.spilled import SortedRuns, SpilledHashes
from dialog.errors import UserError

Splits = Mapping[str, Iterable[tuple[int, Dialogue]]]
"""Per split, pairs (record number, dialogue without empty turns).

Each split can be iterated repeatedly.
"""


class Filter(Protocol):
    """Select the turns of the training split that must not be responses."""

    def survey(self, splits: Splits) -> NDArray[Any]:
        """Return what the decisions need from the whole corpus, as an array that numpy can save
        without pickling.
        """

    def drops(self, surveyed: NDArray[Any], number: int, dialogue: Dialogue) -> Collection[int]:
        """Return the turns of a training dialogue that must not be responses; if all are, the
        dialogue is dropped.

        This is a pure function: processes call it for any dialogues, in any order.

        Args:
            surveyed: The result of `survey`.
            number: Record number of the dialogue in the training split.
            dialogue: The dialogue without empty turns.
        """


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


class DropDuplicates:
    """Drop each training dialogue that repeats the turns and facts of an earlier one; speakers of
    turns do not matter.

    Repetitions that a mixture creates through its `weight` are dropped too. The survey holds 8
    bytes per dropped dialogue; computing it takes 8 bytes per training dialogue, and 9 per training
    turn on disk.

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
        hashes = SpilledHashes(self.normalise)
        numbers = array("q")
        for number, dialogue in splits["train"]:
            if dialogue.turns:
                hashes.add(dialogue)
                numbers.append(number)
        runs = SortedRuns()
        for chunk in hashes.chunks():
            dialogues = chunk.contexts()[chunk.offsets[1:] - 1]
            own = np.array(numbers[chunk.first : chunk.first + len(dialogues)], dtype=np.uint64)
            runs.add(dialogues, own, np.zeros((len(own), 2)))
        # equal dialogues are in one range, the first of them first
        repeats = [pairs.second[1:][pairs.first[1:] == pairs.first[:-1]] for pairs in runs.ranges()]
        return np.sort(np.concatenate([np.empty(0, np.int64), *repeats]).astype(np.int64))

    def drops(self, surveyed: Integers, number: int, dialogue: Dialogue) -> Collection[int]:
        """Return all turns of a repeated dialogue."""
        position = int(np.searchsorted(surveyed, number))
        repeated = position < len(surveyed) and surveyed[position] == number
        return range(len(dialogue.turns)) if repeated else ()


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


SIDE_MARKS = {TARGET: np.uint64(1), SOURCE: np.uint64(2)}
"""Second hash of an utterance above the threshold, by side."""
TESTED = {TARGET: (TARGET,), SOURCE: (SOURCE,), "both": (TARGET, SOURCE)}


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

    The survey holds 8 bytes per utterance above the threshold; computing it takes at most 41 bytes
    per training turn on disk.

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
        self.sides = lookup(TESTED, side, "side")
        self.normalise = lookup(NORMALISATIONS, normalisation, "normalisation")

    def survey(self, splits: Splits) -> Hashes:
        """Return the sorted hashes of (utterance, side) for all utterances above the threshold on a
        tested side.
        """
        hashes = SpilledHashes(self.normalise)
        for _, dialogue in splits["train"]:
            hashes.add(dialogue)
        above = [
            hash_pairs(found.utterances[found.above(self.threshold)], np.array([SIDE_MARKS[side]]))
            for side in self.sides
            for found in corpus_entropies(hashes, side)
        ]
        return np.sort(np.concatenate([np.empty(0, np.uint64), *above]))

    def drops(self, surveyed: Hashes, number: int, dialogue: Dialogue) -> Collection[int]:
        """Return the responses of all pairs above the threshold."""
        turns = hash_texts(self.normalise(turn.text) for turn in dialogue.turns)
        return sorted(set(self._dropped(surveyed, turns)))

    def _dropped(self, surveyed: Hashes, turns: Hashes) -> Iterator[int]:
        for side in self.sides:
            offset = 0 if side == TARGET else 1  # from the tested turn to the response
            for turn in np.flatnonzero(
                contained_in(hash_pairs(turns, np.array([SIDE_MARKS[side]])), surveyed)
            ).tolist():
                if turn + offset < len(turns):
                    yield turn + offset


FILTERS: Family[Filter] = Family(
    "filter",
    {
        "drop_duplicates": DropDuplicates,
        "drop_leaking_dialogues": DropLeakingDialogues,
        "entropy": DropOpenPairs,
        "length": DropByLength,
    },
)
