"""Checks of a file or folder that an option names for output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dialog.errors import UserError


def check_new_file(path: Path, option: str) -> None:
    """Check that a file does not exist and can be created, before any work is done for it.

    Raises:
        UserError: with the option that names another path.
    """
    with writable(path, option):
        try:
            path.open("x").close()
        except FileExistsError as error:
            raise UserError(f"{path} exists; choose another {option}") from error
        path.unlink()


@contextmanager
def writable(path: Path, option: str) -> Iterator[None]:
    """Re-raise errors of writing a file as UserError, with the option that names another path."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{path}: cannot be written ({reason}); choose another {option}") from error
