"""Folders: the cache; those of runs and comparisons, new ones only, and what is written into them."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from dialog.errors import UserError


def cache() -> Path:
    """Where prepared data and downloads lie: ``$DIALOG_CACHE``, else the user's cache folder."""
    if chosen := os.environ.get("DIALOG_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dialog"


def fresh_folder(root: str, name: str = "") -> Path:
    """The path ``<root>/<name>/<time>-<random>``."""
    return Path(root) / name / f"{datetime.now():%Y%m%d-%H%M%S}-{random.SystemRandom().randrange(16**4):04x}"


def refuse_existing(path: Path) -> None:
    """What exists is never written over."""
    if path.exists():
        raise UserError(f"{path} exists; choose another --output")


def check_new_file(path: Path, option: str) -> None:
    """Refuse a file that exists or cannot be made, before there is anything to write into it."""
    with writable(path, option):
        try:
            path.open("x").close()
        except FileExistsError as error:
            raise UserError(f"{path} exists; choose another {option}") from error
        path.unlink()


@contextmanager
def writable(path: Path, option: str) -> Iterator[None]:
    """That a file cannot be written is the user's to mend; the option is where another path can be given."""
    try:
        yield
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{path}: cannot be written ({why}); choose another {option}") from error


def make_folder(folder: Path) -> Path:
    """Make a new folder."""
    refuse_existing(folder)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror}); choose another --output") from error
    return folder


def name_of(folder: Path) -> str:
    """What a folder is called: its path below the innermost ``runs``, where there is one."""
    return folder.as_posix().rpartition("runs/")[2]
