"""The format of prepared data: the arrays of a split, and the manifest with the size and hash of
every file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from dialog.data.reading.files import sha256
from dialog.errors import UserError

FORMAT = 5
NAME = "manifest.json"
TOKENIZER = "tokenizer.json"
ARRAYS = {
    "offsets": "<i8",  # [lines + 1]: start of each line in ids, and the end
    "speakers": "<i4",  # [lines]: index of the speaker within the dialogue
    "bytes": "<i8",  # [lines]: UTF-8 length of the text
    "unknown_bytes": "<i8",  # [lines]: UTF-8 length of the text that is encoded as <unk>
    # [N, 4] lines: first fact, end of the facts, first turn of the context, response
    "examples": "<i8",
    "lengths": "<i4",  # [N, 2]: source, target without <s>, both truncated
}
"""Little-endian types of the arrays of a split.

A line is a fact or a turn; the facts of a dialogue precede its turns. Two more arrays have types of
their own: `ids`, a placeholder for the role and the token ids of each line; `order` [N], the rows
sorted by length, with `classes`, its table of classes.
"""

Manifest = dict[str, Any]


def ids_dtype(vocabulary: int) -> str:
    """Return the smallest type for the ids of a vocabulary of this size."""
    return "<u2" if vocabulary <= np.iinfo(np.uint16).max else "<u4"


def rows_dtype(examples: int) -> str:
    """Return the smallest type for the rows of N examples."""
    return "<u4" if examples <= np.iinfo(np.uint32).max else "<i8"


def array_file(folder: Path, split: str, array: str) -> Path:
    """Return the path of an array of a split."""
    return folder / f"{split}.{array}.bin"


def fingerprint(settings: Mapping[str, object]) -> str:
    """Return the SHA-256 of the settings and the format version."""
    content = json.dumps({"format": FORMAT, **settings}, sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


def write_manifest(folder: Path, content: Mapping[str, object]) -> None:
    """Write the manifest last, with the size and SHA-256 of each file in the folder and of its own
    content.
    """
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)}
        for path in sorted(folder.iterdir())
    }
    manifest = json.loads(json.dumps({"format": FORMAT, **content, "files": files}, default=str))
    text = json.dumps({**manifest, "sha256": _digest(manifest)}, indent=2)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder and check its files; each is hashed once per process.

    Raises:
        UserError: the manifest is missing, damaged or of another format, or a file is missing or
            damaged.
    """
    path = folder / NAME
    try:
        manifest: Manifest = json.loads(path.read_bytes())
        version = manifest["format"]
        stated = manifest.pop("sha256", None)
    except FileNotFoundError as error:
        raise UserError(f"{folder} holds no prepared data (no {NAME}); prepare it") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(path) from error
    if version != FORMAT:
        raise UserError(
            f"{path} has format {version}, but this version reads {FORMAT}; prepare the data again"
        )
    if stated != _digest(manifest):
        raise _damaged(path)
    for name, listed in manifest["files"].items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != listed["bytes"]:
            raise _damaged(file)
        state = file.stat()
        identity = (state.st_ino, state.st_size, state.st_mtime_ns)
        if _hash_once(file.resolve(), identity) != listed["sha256"]:
            raise _damaged(file)
    return manifest


def _damaged(path: Path) -> UserError:
    return UserError(f"{path} is missing or damaged; delete the folder and prepare the data again")


def _digest(manifest: Manifest) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


@cache
def _hash_once(path: Path, _state: tuple[int, ...]) -> str:
    """Return the SHA-256 of a file, computed again only if its inode, size or time of change
    differs.
    """
    return sha256(path)
