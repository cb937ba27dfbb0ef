"""One mistake, as edits of the code, and the test that finds it."""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple


class Edit(NamedTuple):
    """In a file, ``old`` becomes ``new``, however ``old`` is broken into lines."""

    file: str
    old: str
    new: str

    def places(self, text: str) -> int:
        """Return how often ``old`` occurs in a text."""
        return len(list(self.pattern.finditer(text)))

    def apply(self, text: str) -> str:
        return self.pattern.sub(lambda _: self.new.strip(), text)

    @property
    def pattern(self) -> re.Pattern[str]:
        """Matches ``old`` with other white space, and with or without commas before closing
        brackets.
        """
        tokens = re.findall(r"\w+|\S", re.sub(r",\s*([)\]}])", r"\1", self.old))
        pattern = re.escape(tokens[0])
        for before, token in itertools.pairwise(tokens):
            if token in ")]}":
                pattern += r",?"
            words = re.fullmatch(r"\w+", before) and re.fullmatch(r"\w+", token)
            pattern += (r"\s+" if words else r"\s*") + re.escape(token)
        return re.compile(pattern)


class Mutant(NamedTuple):
    """One mistake, and the test that finds it."""

    name: str
    mistake: str
    test: str
    edits: tuple[Edit, ...]


def mutant(name: str, mistake: str, test: str, *edits: tuple[str, str, str]) -> Mutant:
    """Edits in files below ``dialog/``, a test below ``tests/``."""
    return Mutant(
        name,
        mistake,
        f"tests/{test}",
        tuple(Edit(f"dialog/{file}", old, new) for file, old, new in edits),
    )
