"""What a folder of prepared data holds: the arrays' formats, and the manifest that is written last."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dialog.data.files import sha256
from dialog.errors import UserError

FORMAT = 1
NAME = "manifest.json"
TOKENIZER = "tokenizer.json"
ARRAYS = {
    "offsets": "<i8",  # [turns + 1]: where in ids each turn starts, and the end
    "speakers": "<i4",  # [turns]: number of the speaker in the dialogue, in the order in which they first speak
    "bytes": "<i8",  # [turns]: of the text in UTF-8
    "examples": "<i8",  # [N, 2]: first turn of the context, response
}
"""The little-endian type of each array of a split; `ids`, the turns' token ids one after the other, has its own."""

Manifest = dict[str, Any]


def ids_dtype(vocabulary: int) -> str:
    """The smallest type for ids of a vocabulary of that size."""
    return "<u2" if vocabulary <= np.iinfo(np.uint16).max else "<u4"


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
