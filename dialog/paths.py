"""Paths: the cache folder, and new folders of runs and comparisons."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from pathlib import Path

from dialog.atomic import partial_folder, publish
from dialog.errors import UserError

GENERATED = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}|seed-\d+")
"""Names of runs, by `fresh_folder` and of a comparison."""


def cache() -> Path:
    """Return the folder of prepared data and downloads: ``$DIALOG_CACHE``, else below the user's
    cache folder.
    """
    if chosen := os.environ.get("DIALOG_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dialog"


def fresh_folder(root: str, name: str = "") -> Path:
    """Return the path ``<root>/<name>/<time>-<random>``."""
    return (
        Path(root)
        / name
        / f"{datetime.now():%Y%m%d-%H%M%S}-{random.SystemRandom().randrange(16**4):04x}"
    )


def check_new(path: Path, option: str = "--output") -> None:
    """Raise UserError if the path exists; nothing is overwritten."""
    if path.exists():
        raise UserError(f"{path} exists; choose another {option}")


def make_folder(folder: Path, option: str = "--output") -> Path:
    """Create a new folder and its parents.

    Raises:
        UserError: it exists or cannot be created.
    """
    check_new(folder, option)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be created ({error.strerror}); choose another {option}"
        ) from error
    return folder


def is_inner_path(path: str) -> bool:
    """Return whether a relative path, read from a file, stays within the folder that it is appended
    to.
    """
    return (
        "\0" not in path
        and not Path(path).is_absolute()
        and bool(path.strip("./"))
        and ".." not in Path(path).parts
    )


def check_links(folder: Path, part: str = "") -> None:
    """Check that no link in a folder, or in a part of it, leads out of it: writing there would
    change other files.

    Folders named ``wandb`` are left out: wandb links to its own logs, and replaces links instead of
    following them.

    Raises:
        UserError: with the link.
    """
    root = folder.resolve()
    tree = (
        inner
        for inner in os.walk(folder / part)
        if "wandb" not in Path(inner[0]).relative_to(folder).parts
    )
    inside = (Path(inner, name) for inner, *names in tree for name in chain(*names))
    for path in chain((folder / part,) if part else (), inside):
        if path.is_symlink() and not path.resolve().is_relative_to(root):
            raise UserError(
                f"{path}: is a link out of {folder}; replace it by a copy, or pass --trust"
            )


@contextmanager
def created_folder(folder: Path, option: str = "--output") -> Iterator[Path]:
    """Yield a hidden folder to write into, which becomes the new `folder` at the end; a kill leaves
    none.

    Raises:
        UserError: it exists, also by then, or cannot be created.
    """
    check_new(folder, option)
    try:
        with partial_folder(folder) as partial:
            new = partial / "new"
            new.mkdir()
            yield new
            publish(new, folder)
            if new.exists():  # another process was faster
                check_new(folder, option)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be created ({error.strerror}); mend this, or choose another {option}"
        ) from error


def name_of(folder: Path) -> str:
    """Return a folder's path below the innermost ``runs``, or its whole path outside of one."""
    first = max(
        (place for place, part in enumerate(folder.parts[:-1], start=1) if part == "runs"),
        default=0,
    )
    return Path(*folder.parts[first:]).as_posix()


def display_name(folder: Path) -> str:
    """Return a run's path below the innermost ``runs``, or the name of its folder outside of
    one.
    """
    return name_of(folder) if "runs" in folder.parts[:-1] else folder.resolve().name


def recipe_name(run: Path) -> str:
    """Return the name that the runs of a recipe share: their folder's below ``runs``, else a run's
    own name.

    Runs share a folder if they are named ``<time>-<random>`` or ``seed-<number>``.
    """
    shared = GENERATED.fullmatch(run.name) and "runs" in run.parent.parts[:-1]
    return name_of(run.parent) if shared else display_name(run)
