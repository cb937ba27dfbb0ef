"""Find the Parquet files of a split, as the Hugging Face Hub names them."""

from __future__ import annotations

import re
from pathlib import Path

from dialog.data.reading.files import find_names, require_file
from dialog.errors import UserError

PATTERNS = ("{}.parquet", "{}-*.parquet", "data/{}-*.parquet", "{}/*.parquet")
"""File names for a split: one file, the shards of a repository, the shards of the Hub's own
conversion.
"""


def split_shards(path: Path, name: str) -> list[Path]:
    """Return the Parquet files of the split `name`, in order; if `path` is a file, only that.

    Raises:
        UserError: no file, files of two patterns, a missing shard, or shards of two counts.
    """
    candidates = [[path]]
    if path.is_dir():
        matches = (find_names(path, pattern.format(name)) for pattern in PATTERNS)
        candidates = [[path / shard for shard in shards] for shards in matches if shards]
        for shards in candidates:
            check_complete(shards)
    if len(candidates) > 1:
        raise UserError(
            f"{candidates[0][0]} and {candidates[1][0]} are both there; keep one set of files"
        )
    files = candidates[0] if candidates else [path / f"{name}.parquet"]
    for file in files:
        require_file(file, "it should hold dialogues as Parquet; set data.path")
    return files


def check_complete(files: list[Path]) -> None:
    """Raise UserError unless shards named `NAME-00000-of-00002.parquet` are complete and of one
    count per NAME.
    """
    matches = (re.fullmatch(r"(.*)-\d{5}-of-(\d{5})\.parquet", str(file)) for file in files)
    pairs = [(match[1], match[2]) for match in matches if match]
    counts = dict(pairs)
    present = set(files)
    for start, count in pairs:
        if count != counts[start]:
            raise UserError(
                f"{start}-*: shards of {int(count)} and of {int(counts[start])}; keep one set of"
                " files"
            )
    for start, count in counts.items():
        for number in range(int(count)):
            if (file := Path(f"{start}-{number:05}-of-{count}.parquet")) not in present:
                raise UserError(f"{file} is missing, one of {int(count)} shards; download it again")
