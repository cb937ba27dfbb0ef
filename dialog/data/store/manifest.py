"""What a folder of prepared data holds: the arrays' formats, and the manifest that is written last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dialog.data.reading.files import sha256
from dialog.errors import UserError

FORMAT = 3
NAME = "manifest.json"
TOKENIZER = "tokenizer.json"
ARRAYS = {
    "offsets": "<i8",  # [lines + 1]: where in ids each line starts, and the end
    "speakers": "<i4",  # [lines]: number of the speaker in the dialogue
    "bytes": "<i8",  # [lines]: of the text in UTF-8
    "examples": "<i8",  # [N, 4]: lines: first fact, end of the facts, first turn of the context, response
    "lengths": "<i4",  # [N, 2]: source, target without <s>, after the cuts
}
"""The little-endian type of each array of a split that is written as its dialogues come.

A line is a turn, or a fact that stands before its dialogue's turns. `ids`, a role's place and the token ids of each
line, has a type of its own, and so has `order` [N], the rows sorted by their lengths, with the table `classes`.
"""

Manifest = dict[str, Any]


def ids_dtype(vocabulary: int) -> str:
    """The smallest type for ids of a vocabulary of that size."""
    return "<u2" if vocabulary <= np.iinfo(np.uint16).max else "<u4"


def rows_dtype(examples: int) -> str:
    """The smallest type for rows of so many examples."""
    return "<u4" if examples <= np.iinfo(np.uint32).max else "<i8"


def array_file(folder: Path, split: str, array: str) -> Path:
    """Where an array of a split lies."""
    return folder / f"{split}.{array}.bin"


def fingerprint(settings: Mapping[str, object]) -> str:
    """SHA-256 of settings and of the format's version."""
    content = json.dumps({"format": FORMAT, **settings}, sort_keys=True, default=str)
    return hashlib.sha256(content.encode()).hexdigest()


def write_manifest(folder: Path, content: Mapping[str, object]) -> None:
    """Write the manifest, with size and SHA-256 of each file that lies in the folder."""
    files = {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in sorted(folder.iterdir())}
    text = json.dumps({"format": FORMAT, **content, "files": files}, indent=2, default=str)
    (folder / NAME).write_text(text + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a folder, and hold the files' sizes against it.

    Raises:
        UserError: no manifest, a broken one, one of another format, or a file that is missing or of another size.
    """
    path = folder / NAME
    try:
        manifest: Manifest = json.loads(path.read_bytes())
        version, files = manifest["format"], manifest["files"]
        sizes = {name: about["bytes"] for name, about in files.items()}
    except FileNotFoundError as error:
        raise UserError(f"{folder} holds no prepared data (no {NAME}); prepare it") from error
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(f"{path} is broken; delete the folder and prepare the data again") from error
    if version != FORMAT:
        raise UserError(f"{path} has format {version}, this version reads {FORMAT}; prepare the data again")
    for name, size in sizes.items():
        file = folder / name
        if not file.is_file() or file.stat().st_size != size:
            raise UserError(f"{file} is missing or damaged; delete the folder and prepare the data again")
    return manifest
