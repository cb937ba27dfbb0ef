"""The format of prepared data: the arrays of a split, and the manifest with the size and hash of
every file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dialog.data.store.arrays import (
    ARRAY_SUFFIX,
    ArrayType,
    AscendingArray,
    StoredArray,
    array_file,
    block_hashes,
)
from dialog.errors import UserError

FORMAT = 6
"""Version of the files. Data of another format are prepared again, in a folder of their own."""
EXAMPLES = 5
"""Version of the rules by which examples are made; with another one, equal settings give other
examples.
"""
NAME = "manifest.json"
TOKENIZER = "tokenizer.json"
ARRAYS = ("ids", "speakers", "bytes", "unknown_bytes", "contexts", "facts", "fact_lines")
"""Arrays of a split besides the ascending ones, each in the narrowest type that holds it.

A line is a fact or a turn; the facts of a dialogue precede its turns. `ids` holds an entry that
stands for the role, then the token ids, of each line. For each line: `speakers`, the index of the
speaker within the dialogue; `bytes`, the UTF-8 length of the text; `unknown_bytes`, the part of it
that is encoded as <unk>. For each example: `contexts`, the number of turns of the context; `facts`,
the number of lines from the first fact to the response, 0 without facts; `fact_lines`, the number
of facts.
"""
ASCENDING = ("offsets", "responses")
"""Ascending arrays of a split: the start of each line in `ids`, and the end; the line of each
response. Each has a second file, `<name>_bases`.

Two more arrays: `order`, the rows sorted by length, and `classes`, its table of classes.
"""

Manifest = dict[str, Any]


def fingerprint(settings: Mapping[str, object]) -> str:
    """Return the SHA-256 of the settings and the version of the examples."""
    content = json.dumps({"format": EXAMPLES, **settings}, sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


def write_manifest(folder: Path, content: Mapping[str, object]) -> None:
    """Write the manifest last, with the size of each file in the folder, the SHA-256 of each of its
    blocks, and that of its own content.
    """
    files = {
        path.name: {"bytes": path.stat().st_size, "sha256": block_hashes(path)}
        for path in sorted(folder.iterdir())
    }
    manifest = json.loads(json.dumps({"format": FORMAT, **content, "files": files}, default=str))
    text = json.dumps({**manifest, "sha256": _digest(manifest)}, indent=2)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder; check the sizes of its files, and the content of all but the
    arrays, which `stored_array` checks as they are read.

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
        if file.suffix != ARRAY_SUFFIX and block_hashes(file) != listed["sha256"]:
            raise _damaged(file)
    return manifest


def stored_array(folder: Path, manifest: Manifest, split: str, name: str) -> StoredArray:
    """Return an array of prepared data."""
    path = array_file(folder, split, name)
    kind = ArrayType(*manifest["arrays"][split][name])
    return StoredArray(path, kind, manifest["files"][path.name]["sha256"])


def ascending_array(folder: Path, manifest: Manifest, split: str, name: str) -> AscendingArray:
    """Return an ascending array of prepared data."""
    bases, distances = (
        stored_array(folder, manifest, split, file) for file in ascending_files(name)
    )
    return AscendingArray(bases, distances)


def ascending_files(name: str) -> tuple[str, str]:
    """Return the names of the bases and the distances of an ascending array."""
    return f"{name}_bases", name


def _damaged(path: Path) -> UserError:
    return UserError(f"{path} is missing or damaged; delete the folder and prepare the data again")


def _digest(manifest: Manifest) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
