"""Several corpora as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any
from zlib import crc32

from dialog.data.corpora.contract import Corpus
from dialog.data.dialogue import Entry, Malformed
from dialog.errors import UserError


class Mixture:
    """The dialogues of its corpora one after the other, `<number>-<name>/` before their ids.

    A training dialogue comes `weight` times on average: floor(weight) times, and once more for a share of dialogues,
    chosen by their ids, that is the rest. Validation and test hold every dialogue once.

    Args:
        corpora: Components as a recipe's `data.corpus` is one, each with its own `path` if it needs one, and with a
            `weight`, 1 by default.
        member: Builds the corpus of a component.

    Raises:
        UserError: no list of corpora, or a weight that is not a number above 0.
    """

    def __init__(self, *, corpora: Sequence[Mapping[str, Any]], member: Callable[[Mapping[str, Any]], Corpus]) -> None:
        listed = isinstance(corpora, Sequence) and not isinstance(corpora, str)
        if not corpora or not listed or not all(isinstance(component, Mapping) for component in corpora):
            raise UserError("corpus mixture: give corpora: [{name: ..., path: ..., weight: 1}, ...]")
        self.members: list[tuple[str, float, Corpus]] = []
        for number, component in enumerate(corpora):
            weight = component.get("weight", 1)
            if not isinstance(weight, int | float) or not 0 < weight < inf:
                raise UserError(f"corpus mixture: the weight of {component.get('name')} is {weight}; give one above 0")
            own = {key: value for key, value in component.items() if key != "weight"}
            self.members.append((f"{number}-{component.get('name')}", float(weight), member(own)))

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of all corpora, each as often as it counts."""
        for name, weight, corpus in self.members:
            for entry in corpus.dialogues(split):
                if isinstance(entry, Malformed):
                    yield entry
                    continue
                id = f"{name}/{entry.id}"
                for turn in range(_times(id, weight) if split == "train" else 1):
                    yield replace(entry, id=f"{id}+{turn}" if turn else id)

    def fingerprint(self) -> dict[str, str]:
        """What each corpus says, under its name, and the weights."""
        found = {f"{name}/{key}": mark for name, _, each in self.members for key, mark in each.fingerprint().items()}
        return found | {f"{name}/weight": str(weight) for name, weight, _ in self.members}


def _times(id: str, weight: float) -> int:
    return int(weight) + (crc32(id.encode()) < (weight % 1) * 2**32)
