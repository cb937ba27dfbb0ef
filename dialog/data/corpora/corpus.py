"""The interface of a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from dialog.data.dialogue import Entry


class Corpus(Protocol):
    """A source of dialogues in the three splits of `dialog.data.dialogue.SPLITS`."""

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, in the same order at every call."""

    def fingerprint(self) -> Mapping[str, str]:
        """Map each file to its SHA-256 and each setting to its value; equal if and only if the
        dialogues are equal.
        """
