"""Several corpora as one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

from dialog.data.corpora.corpus import Corpus
from dialog.data.corpora.parsing.splits import sha256_number
from dialog.data.dialogue import Entry, Malformed
from dialog.errors import UserError


class Mixture:
    """Read several corpora one after the other, with the prefix `<number>-<name>/` on their ids.

    A training dialogue occurs `weight` times on average: floor(weight) times, and once more for the
    remaining fraction of the dialogues, chosen by the SHA-256 of their ids. Validation and test
    hold every dialogue once.

    Args:
        corpora: Components like a recipe's `data.corpus`, each with a `path` if it needs one, and a
            `weight` (default 1).
        member: Builds the corpus of a component.

    Raises:
        UserError: `corpora` is not a list of corpora, or a weight is not a number above 0.
    """

    def __init__(
        self, *, corpora: Sequence[Mapping[str, Any]], member: Callable[[Mapping[str, Any]], Corpus]
    ) -> None:
        is_list = isinstance(corpora, Sequence) and not isinstance(corpora, str)
        if (
            not corpora
            or not is_list
            or not all(isinstance(component, Mapping) for component in corpora)
        ):
            raise UserError(
                "corpus mixture: give corpora: [{name: ..., path: ..., weight: 1}, ...]"
            )
        self.members: list[tuple[str, float, Corpus]] = []
        for number, component in enumerate(corpora):
            weight = component.get("weight", 1)
            if not isinstance(weight, int | float) or not 0 < weight < inf:
                raise UserError(
                    f"corpus mixture: the weight of {component.get('name')} is {weight}; give one"
                    " above 0"
                )
            own = {key: value for key, value in component.items() if key != "weight"}
            self.members.append((f"{number}-{component.get('name')}", float(weight), member(own)))

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of all corpora; those of train repeated by weight."""
        for name, weight, corpus in self.members:
            for entry in corpus.dialogues(split):
                if isinstance(entry, Malformed):
                    yield entry
                    continue
                id = f"{name}/{entry.id}"
                for copy in range(_copies(id, weight) if split == "train" else 1):
                    yield replace(entry, id=f"{id}+{copy}" if copy else id)

    def fingerprint(self) -> dict[str, str]:
        """Merge the corpora's fingerprints, each key under its corpus's name, and add the
        weights.
        """
        members = [(name, corpus.fingerprint()) for name, _, corpus in self.members]
        merged = {
            f"{name}/{key}": value
            for name, fingerprint in members
            for key, value in fingerprint.items()
        }
        return merged | {f"{name}/weight": str(weight) for name, weight, _ in self.members}


def _copies(id: str, weight: float) -> int:
    return int(weight) + (sha256_number(id) / 2**256 < weight % 1)
