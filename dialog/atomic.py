"""Write files atomically: temporary file, fsync, rename; lock folders."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dialog.errors import UserError
from dialog.escaping import to_json


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Keep other processes from training in a folder; however this one ends, the claim ends with it.

    Raises:
        UserError: another process has it.
    """
    import fcntl

    with (folder / ".lock").open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(f"{folder}: another process trains in it; wait until it ends, or stop it") from error
        yield


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """The path of a new file in the folder of another, which is gone at the end unless it was renamed."""
    new = path.with_name(f".{path.name}.{random.SystemRandom().randrange(16**8):08x}")
    try:
        yield new
    finally:
        new.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Have a file, or the names in a folder, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_text(path: Path, text: str) -> None:
    """Put a text in the place of a file's: at any moment the one or the other is there, whole."""
    with beside(path) as new:
        new.write_text(text, encoding="utf-8")
        sync(new)
        os.replace(new, path)
        sync(path.parent)


def write_json(path: Path, content: object) -> None:
    """Write a JSON file that people read."""
    path.write_text(to_json(content, indent=1) + "\n", encoding="utf-8")
