"""SHA-256 of the files of a folder, in ``manifest.json``; the listed hashes hold at any moment,
also after a kill.

A new file's hash is listed under the file's temporary name before the file is renamed, and under
its own name afterwards. A file is intact if its hash is listed under either.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from dialog.atomic import beside, keep_as, rename, sync, write_text
from dialog.data.reading.files import sha256
from dialog.errors import UserError

MANIFEST = "manifest.json"
INPUTS = ("weights", "settings", "data", "responses")
"""Entries that are no files: the SHA-256 of what the files of an evaluation were computed from."""


def read_manifest(folder: Path) -> dict[str, str] | None:
    """Return the hashes of a folder's files by name, and of `INPUTS`; None without a manifest.

    Raises:
        UserError: the manifest is damaged.
    """
    damaged = UserError(
        f"{folder / MANIFEST}: damaged; delete it to use the files without verification"
    )
    try:
        hashes = json.loads((folder / MANIFEST).read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise damaged from error
    if not isinstance(hashes, dict) or not all(isinstance(sha, str) for sha in hashes.values()):
        raise damaged
    return hashes


def write_manifest(folder: Path, hashes: Mapping[str, str]) -> None:
    """Replace the manifest atomically."""
    write_text(folder / MANIFEST, json.dumps(hashes, indent=1, sort_keys=True) + "\n")


def list_files(folder: Path, names: Iterable[str]) -> None:
    """Write a manifest of those of the files that exist."""
    write_manifest(
        folder, {name: sha256(folder / name) for name in names if (folder / name).is_file()}
    )


def is_intact(path: Path) -> bool | None:
    """Return whether a file's SHA-256 is listed; None without a manifest.

    Another process may replace the file and the manifest meanwhile, so a mismatch is checked again
    until the manifest is the same before and after.

    Raises:
        UserError: the manifest is damaged, or the file cannot be read.
    """
    while (hashes := read_manifest(path.parent)) is not None:
        if sha256(path) in _listed(hashes, path.name):
            return True
        if read_manifest(path.parent) == hashes:
            return False
    return None


def check_intact(path: Path, remedy: str = "restore it from a copy") -> None:
    """Check a file against the manifest, if its folder has one.

    Raises:
        UserError: the file has changed, with the remedy.
    """
    if is_intact(path) is False:
        raise UserError(f"{path}: has changed, its SHA-256 is not in {MANIFEST}; {remedy}")


@contextmanager
def replacing_listed(path: Path, *, previous: str | None = None) -> Iterator[Path]:
    """Yield a temporary path that replaces `path` at the end and is listed; the old file is kept as
    `previous`.
    """
    with beside(path) as new:
        yield new
        sync(new)
        _replace(new, path, previous)


def _replace(new: Path, path: Path, previous: str | None) -> None:
    """List a synced file and rename it."""
    folder = path.parent
    hashes = {new.name: sha256(new)}
    with suppress(UserError):  # a damaged manifest is replaced
        hashes |= read_manifest(folder) or {}
    old = hashes.get(path.name) if previous else None
    if previous and old:
        hashes[previous] = old
    write_manifest(folder, hashes)
    if previous and old:
        keep_as(path, previous)
    rename(new, path)
    hashes[path.name] = hashes.pop(new.name)
    write_manifest(
        folder,
        {name: sha for name, sha in hashes.items() if name in INPUTS or (folder / name).exists()},
    )


def remove_temporaries(folder: Path, names: Iterable[str]) -> None:
    """Remove temporary files that killed processes left beside files of these names or patterns."""
    for name in (*names, MANIFEST):
        for path in folder.glob(f".{name}.*"):
            path.unlink()


def _listed(hashes: Mapping[str, str], file: str) -> set[str]:
    """Return the hashes that are listed for a file, under its own or a temporary name."""
    return {sha for name, sha in hashes.items() if name == file or name.startswith(f".{file}.")}
