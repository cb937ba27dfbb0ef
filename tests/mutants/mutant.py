"""One mistake, as edits of the code, and the test that finds it."""

from __future__ import annotations

from typing import NamedTuple


class Edit(NamedTuple):
    """In a file, ``old`` becomes ``new``."""

    file: str
    old: str
    new: str


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
