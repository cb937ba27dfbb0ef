"""Folders that appear at once and complete; what killed processes leave of them is told from what is written now."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

PARTIAL, LOCK = "partial", "lock"
"""What the name of a folder ends with that is written, and the lock in it."""


@contextmanager
def at_once(folder: Path) -> Iterator[Path]:
    """A `partial_folder` to write into, which takes its place at the end, on disk, unless another was faster."""
    with partial_folder(folder) as partial:
        yield partial
        sync(*partial.iterdir(), partial)
        try:
            partial.replace(folder)
        except OSError:
            if not folder.is_dir():
                raise


@contextmanager
def partial_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder beside `folder`, locked while this process lives; those that nobody holds are swept first.

    It has the name that is swept only when it is locked.
    """
    for left in folder.parent.glob(f".{folder.name}.*.{PARTIAL}"):
        sweep(left)
    new = folder.parent / f".{folder.name}.{secrets.token_hex(4)}"
    partial = new.with_name(f"{new.name}.{PARTIAL}")
    new.mkdir(parents=True)
    try:
        with locked(new):
            new.rename(partial)
            yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove a folder, if it is there and no process holds its lock."""
    with locked(folder) as alone:
        if alone:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(folder: Path, *, shared: bool = False) -> Iterator[bool]:
    """Hold the lock of a folder, unless another process does, or there is no such folder or lock.

    A shared lock is waited for: many may hold it, and nobody sweeps meanwhile. It is a file that is written to, since
    that is what machines that share a file system see of each other's locks.
    """
    with ExitStack() as stack:
        alone = False
        with suppress(OSError):
            file = stack.enter_context((folder / LOCK).open("w+"))
            fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX | fcntl.LOCK_NB)
            alone = not shared
        yield alone


def sync(*paths: Path) -> None:
    """Wait until files, and folders' lists of names, are on disk: what is then renamed survives a power cut whole."""
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
