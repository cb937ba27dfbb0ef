"""The leak between splits: what training dialogues say that another split asks for, so that it can be learnt by heart.

The rule: an utterance is its `words`; a pair is the words of two turns that follow each other; a long pair answers with
four words or more, since formulas ("thank you .") are no leak. A dialogue leaks if it has one of the other side.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from dialog.data.dialogue import Dialogue
from dialog.data.fingerprints import Hashes, among, hashes, joined, words

MINIMUM_WORDS = 4


class Split(NamedTuple):
    """The ids of dialogues that share no long pair with the training split, and of those that do, in their order."""

    clean: list[str]
    leaked: list[str]


def long_pairs(dialogue: Dialogue, minimum_words: int = MINIMUM_WORDS) -> Hashes:
    """A number for each long pair of a dialogue."""
    said = [words(turn.text) for turn in dialogue.turns]
    found = hashes(said)
    long = np.array([text.count(" ") + bool(text) >= minimum_words for text in said[1:]], dtype=bool)
    pairs: Hashes = joined(found[:-1], found[1:])[long]
    return pairs


def all_long_pairs(dialogues: Iterable[Dialogue], minimum_words: int = MINIMUM_WORDS) -> Hashes:
    """The numbers of the long pairs of all dialogues, in order, each once."""
    found = [long_pairs(dialogue, minimum_words) for dialogue in dialogues]
    return np.unique(np.concatenate(found)) if found else np.empty(0, np.uint64)


def leaks(dialogue: Dialogue, known: Hashes, minimum_words: int = MINIMUM_WORDS) -> bool:
    """Whether a dialogue has a long pair that is among those of `all_long_pairs`."""
    return bool(among(long_pairs(dialogue, minimum_words), known).any())


def clean_and_leaked(
    training: Iterable[Dialogue], evaluated: Iterable[Dialogue], minimum_words: int = MINIMUM_WORDS
) -> Split:
    """Part the dialogues that are evaluated by whether they share a long pair with the training split.

    Both without empty turns. Each is gone through once; what is held are 8 bytes a long pair of the evaluated
    dialogues, and their ids.
    """
    pairs = [(dialogue.id, long_pairs(dialogue, minimum_words)) for dialogue in evaluated]
    asked = np.unique(np.concatenate([np.empty(0, np.uint64), *(found for _, found in pairs)]))
    seen = np.zeros(len(asked), dtype=bool)
    for dialogue in training:
        found = long_pairs(dialogue, minimum_words)
        seen[np.searchsorted(asked, found[among(found, asked)])] = True
    leaked = [bool(among(found, asked[seen]).any()) for _, found in pairs]
    return Split(
        [id for (id, _), leak in zip(pairs, leaked, strict=True) if not leak],
        [id for (id, _), leak in zip(pairs, leaked, strict=True) if leak],
    )
