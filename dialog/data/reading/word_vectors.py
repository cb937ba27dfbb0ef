"""Word vectors as text: a word and its numbers on each line, as word2vec and GloVe write them."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.data.reading.files import raw_lines, require_file
from dialog.errors import UserError

WANTED = "model.vectors should name a text of a word and its numbers on each line"

Vector = NDArray[np.float32]


class Found(NamedTuple):
    """What a file has of the words that were looked for."""

    vectors: dict[str, Vector]
    lines: int
    malformed: int


def check_vectors(path: Path, size: int) -> bool:
    """Whether a file of vectors of so many numbers begins with word2vec's line of counts.

    Raises:
        UserError: there is no such file, or its vectors have another size.
    """
    require_file(path, WANTED)
    fields = next(raw_lines(path), b"").split()
    header = len(fields) == 2 and all(field.isdigit() for field in fields)
    numbers = int(fields[1]) if header else len(fields) - 1
    if numbers != size:
        raise UserError(f"{path}:1: vectors of {max(numbers, 0)} numbers; model.embedding_size is {size}")
    return header


def find_vectors(path: Path, size: int, words: Container[str]) -> Found:
    """The vectors of those words that a file has, the first of each.

    A word may hold spaces, as some of GloVe's do: the last numbers of a line are the vector. A line that has too few
    fields, or whose word is not UTF-8, is malformed, and so is the line of a word looked for with anything but finite
    numbers; the numbers of other words are not read.

    Raises:
        UserError: as :func:`check_vectors`.
    """
    lines = raw_lines(path)
    if check_vectors(path, size):
        next(lines)
    found: dict[str, Vector] = {}
    count = malformed = 0
    for line in lines:
        count += 1
        fields = line.rsplit(None, size)
        word = _word(fields[0]) if len(fields) == size + 1 else None
        if word is None:
            malformed += 1
        elif word in words and word not in found:
            vector = _numbers(fields[1:])
            if vector is None:
                malformed += 1
            else:
                found[word] = vector
    return Found(found, count, malformed)


def _word(field: bytes) -> str | None:
    try:
        return field.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _numbers(fields: list[bytes]) -> Vector | None:
    try:
        vector = np.array([float(field) for field in fields], dtype=np.float32)
    except ValueError:
        return None
    return vector if np.isfinite(vector).all() else None
