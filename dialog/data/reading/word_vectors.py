"""Word vectors in text form: one word and its numbers per line, as word2vec and GloVe write
them.
"""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.data.reading.files import raw_lines, require_file
from dialog.errors import UserError

WANTED = "model.vectors should name a text file with a word and its numbers on each line"

Vector = NDArray[np.float32]


class WordVectors(NamedTuple):
    """Vectors of the requested words, and the number of all and of malformed lines."""

    vectors: dict[str, Vector]
    lines: int
    malformed: int


def check_vectors(path: Path, size: int) -> bool:
    """Check that a file holds vectors of `size` numbers; return whether it starts with word2vec's
    line of counts.

    Raises:
        UserError: the file does not exist, or its vectors have another size.
    """
    require_file(path, WANTED)
    fields = next(raw_lines(path), b"").split()
    header = len(fields) == 2 and all(field.isdigit() for field in fields)
    numbers = int(fields[1]) if header else len(fields) - 1
    if numbers != size:
        raise UserError(
            f"{path}:1: vectors of {max(numbers, 0)} numbers; model.embedding_size is {size}"
        )
    return header


def find_vectors(path: Path, size: int, words: Container[str]) -> WordVectors:
    """Read the vectors of the requested words; the first line of a repeated word counts.

    The last `size` fields of a line are the vector, so words may contain spaces, as in GloVe. A
    line is malformed if it has too few fields, if its word is not UTF-8, or if the word is
    requested and a number is not finite; numbers of other words are not parsed.

    Raises:
        UserError: as in `check_vectors`.
    """
    lines = raw_lines(path)
    if check_vectors(path, size):
        next(lines)
    vectors: dict[str, Vector] = {}
    count = malformed = 0
    for line in lines:
        count += 1
        fields = line.rsplit(None, size)
        word = _decoded_word(fields[0]) if len(fields) == size + 1 else None
        if word is None:
            malformed += 1
        elif word in words and word not in vectors:
            vector = _finite_vector(fields[1:])
            if vector is None:
                malformed += 1
            else:
                vectors[word] = vector
    return WordVectors(vectors, count, malformed)


def _decoded_word(field: bytes) -> str | None:
    try:
        return field.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _finite_vector(fields: list[bytes]) -> Vector | None:
    try:
        vector = np.array([float(field) for field in fields], dtype=np.float32)
    except ValueError:
        return None
    return vector if np.isfinite(vector).all() else None
