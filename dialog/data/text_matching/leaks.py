"""Leaks between splits: pairs of turns of an evaluated split that also occur in the training split.

Definition. A pair is two consecutive turns, compared by `normalise_words`. A long pair is one whose
second turn has at least four words; shorter ones, such as "thank you .", are formulas. A dialogue
leaks if it shares a long pair with the other split.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dialog.data.dialogue import Dialogue
from dialog.data.text_matching.fingerprints import (
    Flags,
    Hashes,
    Integers,
    contained_in,
    hash_pairs,
    hash_texts,
    normalise_words,
)

MINIMUM_WORDS = 4


class LeakReport(NamedTuple):
    """The ids of evaluated dialogues without and with a leak, each in corpus order."""

    clean: list[str]
    leaked: list[str]


def hash_long_pairs(dialogue: Dialogue, minimum_words: int = MINIMUM_WORDS) -> Hashes:
    """Hash the long pairs of a dialogue [pairs]."""
    texts = [normalise_words(turn.text) for turn in dialogue.turns]
    hashes = hash_texts(texts)
    is_long = np.array(
        [text.count(" ") + bool(text) >= minimum_words for text in texts[1:]], dtype=bool
    )
    pairs: Hashes = hash_pairs(hashes[:-1], hashes[1:])[is_long]
    return pairs


def hash_all_long_pairs(
    dialogues: Iterable[Dialogue], minimum_words: int = MINIMUM_WORDS
) -> Hashes:
    """Hash the long pairs of many dialogues; sorted, without repeats. It takes 8 bytes per pair."""
    hashes = array("Q")
    for dialogue in dialogues:
        hashes.frombytes(hash_long_pairs(dialogue, minimum_words).tobytes())
    return np.unique(np.frombuffer(hashes, dtype=np.uint64))


def has_leak(dialogue: Dialogue, sorted_pairs: Hashes, minimum_words: int = MINIMUM_WORDS) -> bool:
    """Return whether a long pair of a dialogue is among those of `hash_all_long_pairs`."""
    return bool(contained_in(hash_long_pairs(dialogue, minimum_words), sorted_pairs).any())


class LeakDetector:
    """Find the dialogues of an evaluated split that leak.

    First add this split, then the training dialogues.

    Empty turns must have been dropped. The detector takes 8 bytes per long pair and per dialogue,
    and the dialogue ids.

    Args:
        evaluated: Dialogues of the evaluated split; `add_evaluated` adds more.
        minimum_words: Fewest words of the second turn of a long pair.
    """

    def __init__(
        self, evaluated: Iterable[Dialogue] = (), minimum_words: int = MINIMUM_WORDS
    ) -> None:
        self.minimum_words = minimum_words
        self.ids: list[str] = []
        self._pairs = array("Q")
        self._owners = array("q")
        for dialogue in evaluated:
            self.add_evaluated(dialogue)

    def add_evaluated(self, dialogue: Dialogue) -> None:
        """Add a dialogue of the evaluated split; only before the first call of `add_training`."""
        pairs = hash_long_pairs(dialogue, self.minimum_words)
        self._pairs.frombytes(pairs.tobytes())
        self._owners.extend([len(self.ids)] * len(pairs))
        self.ids.append(dialogue.id)

    def add_training(self, pairs: Hashes) -> bool:
        """Add the `hash_long_pairs` of a training dialogue; return whether it leaks into the
        evaluated split.
        """
        shared = contained_in(pairs, self._evaluated_pairs)
        self._leaked_pairs[np.searchsorted(self._evaluated_pairs, pairs[shared])] = True
        return bool(shared.any())

    def report(self) -> LeakReport:
        """Return the ids of clean and of leaked dialogues."""
        owners: Integers = np.array(self._owners, dtype=np.int64)
        flags = np.zeros(len(self.ids), dtype=bool)
        leaked = self._evaluated_pairs[self._leaked_pairs]
        flags[owners[contained_in(np.array(self._pairs, dtype=np.uint64), leaked)]] = True
        return LeakReport(
            [id for id, leak in zip(self.ids, flags.tolist(), strict=True) if not leak],
            [id for id, leak in zip(self.ids, flags.tolist(), strict=True) if leak],
        )

    @cached_property
    def _evaluated_pairs(self) -> Hashes:
        return np.unique(np.array(self._pairs, dtype=np.uint64))

    @cached_property
    def _leaked_pairs(self) -> Flags:
        return np.zeros(len(self._evaluated_pairs), dtype=bool)
