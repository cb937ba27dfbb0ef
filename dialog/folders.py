"""Folders: the cache; those of runs and comparisons, new ones only, and what is written into them."""

from __future__ import annotations

import json
import math
import os
import random
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from dialog.errors import UserError

COMMANDS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # bidirectional controls
    "\u2028\u2029\ud800-\udfff\ufffe\uffff]"  # line separators; what neither UTF-8 nor XML can hold
)
"""What could command a terminal or reorder a line."""


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


def is_first_process() -> bool:
    """Whether this process writes, where torchrun, SLURM or Lightning has started several."""
    names = ("RANK", "LOCAL_RANK", "SLURM_PROCID")
    return next((os.environ[name] for name in names if name in os.environ), "0") == "0"


def make_folder(folder: Path) -> Path:
    """Make a new folder."""
    refuse_existing(folder)
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror}); choose another --output") from error
    return folder


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


def name_of(folder: Path) -> str:
    """What a folder is called: its path below the innermost ``runs``, where there is one."""
    return folder.as_posix().rpartition("runs/")[2]


def write_json(path: Path, content: object) -> None:
    """Write a JSON file that people read."""
    path.write_text(to_json(content, indent=1) + "\n", encoding="utf-8")


def to_json(content: object, indent: int | None = None) -> str:
    """JSON, in which a number that is not finite is null, and nothing commands a terminal that it is shown on."""
    text = json.dumps(finite(content), ensure_ascii=False, allow_nan=False, indent=indent)
    return COMMANDS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)  # they stand in strings only


def finite(content: object) -> object:
    """The same, with None for every number that is not finite: JSON has neither NaN nor infinity."""
    if isinstance(content, Mapping):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content
