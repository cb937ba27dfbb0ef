"""``--system 'NAME: COMMAND'``: the program of a system, and the fingerprint of what answers."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dialog.config.variations import UNSAFE
from dialog.data.reading.files import sha256
from dialog.errors import UserError
from dialog.paths import is_inner_path

ADAPTERS = {
    "hf": "dialog.comparison.systems.huggingface",
    "openai": "dialog.comparison.systems.openai",
}
"""Modules by the word before the colon of a command."""


class Specification(NamedTuple):
    """A system: its name, and the command or the adapter with its arguments."""

    name: str
    text: str

    @property
    def flag(self) -> str:
        """The option and the name, for messages."""
        return f"--system {self.name}"

    @property
    def adapters(self) -> Mapping[str, str]:
        """Modules by the word before the colon of a command."""
        return ADAPTERS

    @property
    def option(self) -> str:
        """The value of ``--system``."""
        return f"{self.name}: {self.text}"

    @property
    def command(self) -> list[str]:
        """The program and its arguments.

        Raises:
            UserError: a quotation mark is not closed, or nothing is given.
        """
        try:
            words = shlex.split(self.text)
        except ValueError as error:
            raise UserError(f"{self.flag}: {error}; check the quotation marks") from error
        if not words or not words[0]:
            raise UserError(f"{self.flag}: no command; give a program and its arguments")
        adapter, colon, first = words[0].partition(":")
        if not colon or adapter not in self.adapters:
            return words
        if not first:
            raise UserError(f"{self.flag}: {adapter}: needs a model, as in {adapter}:MODEL")
        return [sys.executable, "-m", self.adapters[adapter], first, *words[1:]]

    def fingerprint(self) -> dict[str, Any]:
        """Return the command, and the SHA-256 of each file that it names but the Python that runs
        now; of a folder, that of the files directly in it.
        """
        words = [word for word in self.command if word != sys.executable]
        files = (path for word in words for path in files_of(Path(word)))
        return {"command": self.text, "files": {str(path): sha256(path) for path in files}}


def parse_system(text: str) -> Specification:
    """Parse the value of ``--system``.

    Raises:
        UserError: no name that can be that of a folder, or no command.
    """
    name, colon, command = text.partition(":")
    specification = Specification(name.strip(), command.strip())
    if not colon or not is_inner_path(specification.name) or UNSAFE.search(specification.name):
        raise UserError(
            f"--system {text!r}: give 'NAME: COMMAND', with a name of letters and digits"
        )
    _ = specification.command
    return specification


def files_of(path: Path) -> Sequence[Path]:
    """Return a file, or the files directly in a folder; none if it is neither."""
    try:
        if path.is_dir():
            return sorted(inner for inner in path.iterdir() if inner.is_file())
        return [path] if path.is_file() else []
    except (OSError, ValueError):  # a word that cannot be a path
        return []
