"""The leak between splits: what training dialogues say that another split asks for, so that it can be learnt by heart.

The rule: an utterance is its `words`; a pair is the words of two turns that follow each other; a long pair answers with
four words or more, since formulas ("thank you .") are no leak. A dialogue leaks if it has one of the other side.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dialog.data.dialogue import Dialogue
from dialog.data.text_matching.fingerprints import Flags, Hashes, Integers, among, hashes, joined, words

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


class Asked:
    """The long pairs of a split that is evaluated, and which of them the training dialogues say.

    8 bytes a long pair and a dialogue, and the ids of the dialogues.
    """

    def __init__(self, dialogues: Iterable[Dialogue] = (), minimum_words: int = MINIMUM_WORDS) -> None:
        self.minimum_words = minimum_words
        self.ids: list[str] = []
        self._pairs, self._owners = array("Q"), array("q")
        for dialogue in dialogues:
            self.ask(dialogue)

    def ask(self, dialogue: Dialogue) -> None:
        """Append a dialogue of the split; all of them, before the first is met."""
        pairs = long_pairs(dialogue, self.minimum_words)
        self._pairs.frombytes(pairs.tobytes())
        self._owners.extend([len(self.ids)] * len(pairs))
        self.ids.append(dialogue.id)

    def meet(self, pairs: Hashes) -> bool:
        """Take the `long_pairs` of a dialogue of the other side; whether it leaks into this split."""
        found = among(pairs, self._known)
        self._seen[np.searchsorted(self._known, pairs[found])] = True
        return bool(found.any())

    def leaked(self) -> Flags:
        """Of each dialogue of the split, whether those that were met have a long pair of it."""
        owners: Integers = np.array(self._owners, dtype=np.int64)
        flags = np.zeros(len(self.ids), dtype=bool)
        flags[owners[among(np.array(self._pairs, dtype=np.uint64), self._known[self._seen])]] = True
        return flags

    def parted(self) -> Split:
        """The ids of clean and of leaked dialogues."""
        leaked = self.leaked().tolist()
        return Split(
            [id for id, leak in zip(self.ids, leaked, strict=True) if not leak],
            [id for id, leak in zip(self.ids, leaked, strict=True) if leak],
        )

    @cached_property
    def _known(self) -> Hashes:
        return np.unique(np.array(self._pairs, dtype=np.uint64))

    @cached_property
    def _seen(self) -> Flags:
        return np.zeros(len(self._known), dtype=bool)


def clean_and_leaked(
    training: Iterable[Dialogue], evaluated: Iterable[Dialogue], minimum_words: int = MINIMUM_WORDS
) -> Split:
    """Part the dialogues that are evaluated by whether they share a long pair with the training split.

    Both without empty turns; each is gone through once.
    """
    asked = Asked(evaluated, minimum_words)
    for dialogue in training:
        asked.meet(long_pairs(dialogue, minimum_words))
    return asked.parted()
