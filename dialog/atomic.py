"""Atomic writes: temporary file or folder beside the target, fsync, rename.

Locks between processes.
"""

from __future__ import annotations

import errno
import glob
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from dialog.errors import FULL, READ_ONLY, RunError, UserError
from dialog.escaping import to_json

PARTIAL = "partial"
LOCK = "lock"
"""Suffix of an unfinished folder, and its lock file."""

DISK_ERRORS = (*FULL, *READ_ONLY, errno.EIO)


def sync(*paths: Path) -> None:
    """Wait until files, and the entries of folders, are on disk; a rename after it survives a power
    failure.
    """
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# ------------------------------------------------------------------ files


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name `path` in errors that name no file or a temporary one beside it, and in a library's
    error of a full disk.
    """
    try:
        yield
    except OSError as error:
        other = error.filename is not None and not Path(error.filename).name.startswith(
            f".{path.name}."
        )
        if other or error.errno not in DISK_ERRORS:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    except (UserError, RunError):
        raise
    except Exception as error:
        full = os.strerror(errno.ENOSPC)
        if full not in str(error):  # safetensors raises its own type
            raise
        raise OSError(errno.ENOSPC, full, str(path)) from error


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Yield a new hidden path in the folder of `path`; a file left there at the end is deleted."""
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with naming(path):
        try:
            yield new
        finally:
            new.unlink(missing_ok=True)


def rename(new: Path, path: Path) -> None:
    """Give a synced file its final name, and sync the folder."""
    os.replace(new, path)
    sync(path.parent)


def keep_as(path: Path, name: str) -> None:
    """Give a file a second name in its folder, in place of a file that has it; both names exist at
    any moment.
    """
    other = path.with_name(name)
    with beside(other) as link:
        os.link(path, link)
        os.replace(link, other)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path` that replaces it at the end; on an error `path` stays as
    it was.
    """
    with beside(path) as new:
        yield new
        sync(new)
        rename(new, path)


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 file; at any moment the old or the new content is there, complete."""
    with replacing(path) as new:
        new.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, content: object) -> None:
    """Write an indented JSON file."""
    write_text(path, to_json(content, indent=1) + "\n")


# ------------------------------------------------------------------ locks


@contextmanager
def lock(path: Path, *, shared: bool = False, wait: bool = False) -> Iterator[bool]:
    """Lock a file, created if missing, and yield True, or False if another process holds it and
    `wait` is not set.

    The system releases the lock when the process ends, however it ends. The file is opened to read
    and write because machines that share a file system see each other's locks only then.

    Raises:
        OSError: the file cannot be opened, or its file system has no locks.
    """
    import fcntl  # missing on Windows

    with path.open("a+") as file:
        try:
            fcntl.flock(
                file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
            )
            held = True
        except BlockingIOError:
            held = False
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        yield held


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Lock a run folder, so that one process trains in it.

    Raises:
        UserError: another process holds the lock.
    """
    with lock(folder / ".lock") as held:
        if not held:
            raise UserError(
                f"{folder}: another process trains in it; wait until it ends, or stop it"
            )
        yield


# ------------------------------------------------------------------ folders


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a `partial_folder` to write files into and `publish` it at the end."""
    with partial_folder(folder) as partial:
        yield partial
        publish(partial, folder)


@contextmanager
def partial_folder(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder beside `folder`, locked by this process and removed at the end.

    Partial folders of killed processes are removed first. The suffix that marks them is given only
    after locking, so that no process removes a folder in use.
    """
    remove_partial_folders(folder)
    new = folder.parent / f".{folder.name}.{secrets.token_hex(4)}"
    partial = new.with_name(f"{new.name}.{PARTIAL}")
    new.mkdir(parents=True)
    try:
        with folder_lock(new):
            new.rename(partial)
            yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def remove_partial_folders(folder: Path) -> None:
    """Remove the `partial_folder`s of `folder` that killed processes have left."""
    for leftover in folder.parent.glob(f".{glob.escape(folder.name)}.*.{PARTIAL}"):
        remove_unlocked(leftover)


def publish(complete: Path, folder: Path) -> None:
    """Sync a folder of files and rename it to `folder`, unless another process was faster."""
    sync(*complete.iterdir(), complete)
    try:
        complete.replace(folder)
    except OSError:
        if not folder.is_dir():
            raise
    sync(folder.parent)


def remove_unlocked(folder: Path) -> None:
    """Remove a folder unless it is missing or a process holds its lock."""
    with folder_lock(folder) as held:
        if held:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def folder_lock(folder: Path, *, shared: bool = False) -> Iterator[bool]:
    """Lock a folder and yield whether this process holds it alone; False if the folder is missing.

    A shared lock waits; many processes may hold it, and none removes the folder meanwhile.
    """
    with ExitStack() as stack:
        held = False
        with suppress(OSError):
            held = stack.enter_context(lock(folder / LOCK, shared=shared, wait=shared))
        yield held and not shared
