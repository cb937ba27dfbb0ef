"""Copies of data in the cache folder: what they are, and which may be removed.

Only what bears the mark of this program is listed: prepared data by their manifest, whose
fingerprint is part of the folder's name; reference rows by their hash; downloads and other files by
the names that it gives them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dialog.data.reading.download_sources import DOWNLOADS
from dialog.data.store.manifest import NAME as MANIFEST
from dialog.errors import UserError

PREPARED = "prepared data"
REFERENCES = "reference rows"
DOWNLOAD = "download"
TYPED = "typed lines of chats"
MEASURED = "measured speed"

PREPARED_NAME = re.compile(r"[\w.]+-([0-9a-f]{12})(?:-v\d+)?")
REFERENCE_NAME = re.compile(r"[\w.]+-(?:validation|test)-[0-9a-f]{16}\.json")
OTHER_FILES = {"chat_history": TYPED, "matmul-speed.json": MEASURED}


class CacheEntry(NamedTuple):
    """A file or folder of the cache: its name there, its kind, what it was made from, and its
    bytes.
    """

    name: str
    kind: str
    source: str
    bytes: int


def cache_entries(root: Path) -> list[CacheEntry]:
    """List what this program has written to a cache folder; nothing else, and no links."""
    return [*_prepared(root), *_references(root), *_downloads(root), *_other_files(root)]


def remove(root: Path, entry: CacheEntry) -> None:
    """Remove an entry that `cache_entries` has listed.

    Raises:
        UserError: it cannot be removed.
    """
    path = root / entry.name
    try:
        if path.is_dir():
            # the name is that of an entry of the folder, never a text that a file holds; rmtree
            # refuses a link that has taken the folder's place, and follows none inside
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
            path.with_suffix(".lock").unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{path}: cannot be removed ({error.strerror})") from error


def _prepared(root: Path) -> Iterator[CacheEntry]:
    for folder in _visible(root):
        match = PREPARED_NAME.fullmatch(folder.name)
        if match is None or not folder.is_dir():
            continue
        manifest = _json(folder / MANIFEST)
        if str(manifest.get("fingerprint", "")).startswith(match[1]):
            settings = manifest.get("settings")
            sources = settings.get("sources", {}) if isinstance(settings, dict) else {}
            files = ", ".join(sorted(map(str, sources))[:2])
            more = ", ..." if len(sources) > 2 else ""
            yield CacheEntry(folder.name, PREPARED, files + more, _size(folder))


def _references(root: Path) -> Iterator[CacheEntry]:
    for file in _visible(root / "baselines"):
        if REFERENCE_NAME.fullmatch(file.name) and {"settings", "sha256"} <= _json(file).keys():
            name = f"baselines/{file.name}"
            yield CacheEntry(name, REFERENCES, file.name.partition("-")[0], file.stat().st_size)


def _downloads(root: Path) -> Iterator[CacheEntry]:
    for folder in _visible(root / "downloads"):
        if folder.name in DOWNLOADS and folder.is_dir():
            page = DOWNLOADS[folder.name].page
            yield CacheEntry(f"downloads/{folder.name}", DOWNLOAD, page, _size(folder))


def _other_files(root: Path) -> Iterator[CacheEntry]:
    for name, kind in OTHER_FILES.items():
        file = root / name
        if file.is_file() and not file.is_symlink():
            yield CacheEntry(name, kind, "", file.stat().st_size)


def _visible(folder: Path) -> list[Path]:
    """Return the entries of a folder that are neither hidden nor links; none without a folder."""
    if not folder.is_dir() or folder.is_symlink():
        return []
    return sorted(
        path for path in folder.iterdir() if not path.name.startswith(".") and not path.is_symlink()
    )


def _json(path: Path) -> dict[str, object]:
    """Return the object of a JSON file; empty if it is none."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _size(folder: Path) -> int:
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )
