"""The arrays of a split: a block's made from its dialogues, and appended to files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dialog.data.dialogue import Dialogue
from dialog.data.examples import Chosen
from dialog.data.layout import source_lengths, target_lengths
from dialog.data.manifest import ARRAYS, array_file, ids_dtype
from dialog.data.tokenizer import Tokenizer

Integers = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
MARKS = "marks"
"""[dialogues, 2] hashes of ids and of words, which are looked at while the arrays are made and not kept."""


class Limits(NamedTuple):
    """The most source ids and target ids of an example; targets are cut in the training split only."""

    max_source: int
    max_target: int


def encode(chosen: list[Chosen], tokenizer: Tokenizer, limits: Limits, *, train: bool) -> tuple[Arrays, Counter[str]]:
    """The arrays of a block, flat and counted from its own beginning, and what they hold."""
    dialogues = [each.dialogue for each in chosen]
    texts = [turn.text for dialogue in dialogues for turn in dialogue.turns]
    ids = tokenizer.encode_batch(texts)
    ends = np.cumsum(np.fromiter(map(len, ids), np.int64, len(ids)))
    offsets = np.concatenate([[0], ends])
    starts = np.cumsum([0, *(len(dialogue.turns) for dialogue in dialogues)])[:-1]
    pairs = [
        np.array(each.windows, np.int64).reshape(-1, 2) + start for each, start in zip(chosen, starts, strict=True)
    ]
    examples = np.concatenate([np.empty((0, 2), np.int64), *pairs])
    sizes = np.fromiter((len(text.encode()) for text in texts), np.int64, len(texts))
    arrays: Arrays = {
        "ids": np.fromiter(chain.from_iterable(ids), np.int64, int(offsets[-1])),
        "offsets": ends,
        "speakers": np.fromiter((number for each in dialogues for number in _speakers(each)), np.int64, len(texts)),
        "bytes": sizes,
        "examples": examples.ravel(),
        MARKS: np.array([_marks(dialogue) for dialogue in dialogues], np.uint64).ravel(),
    }
    return arrays, _counts(offsets, examples, sizes, limits, train=train)


def _counts(offsets: Integers, examples: Integers, sizes: Integers, limits: Limits, *, train: bool) -> Counter[str]:
    sources, targets = source_lengths(offsets, examples), target_lengths(offsets, examples)
    counts = Counter(
        {
            "examples": len(examples),
            "tokens": int(offsets[-1]),
            "bytes": int(sizes.sum()),
            "target bytes": int(sizes[examples[:, 1]].sum()),
            "truncated: source": int((sources > limits.max_source).sum()),
        }
    )
    if train:
        counts["truncated: target"] = int((targets > limits.max_target).sum())
        targets = np.minimum(targets, limits.max_target)
    sources = np.minimum(sources, limits.max_source)
    return counts + Counter({"source tokens": int(sources.sum()), "target tokens": int(targets.sum())})


def _speakers(dialogue: Dialogue) -> list[int]:
    numbers: dict[str, int] = {}
    return [numbers.setdefault(turn.speaker, len(numbers)) for turn in dialogue.turns]


def _marks(dialogue: Dialogue) -> tuple[int, int]:
    words = "\0".join(f"{turn.speaker}\0{turn.text}" for turn in dialogue.turns)
    return mark(dialogue.id), mark(words)


def mark(text: str) -> int:
    """A 64-bit hash."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


# ------------------------------------------------------------------ files


def dtypes(vocabulary: int) -> dict[str, str]:
    """The type of every array while a split is written."""
    return {**ARRAYS, "ids": ids_dtype(vocabulary), MARKS: "<u8"}


class Appender:
    """The files of a split's arrays, appended to, and closed at the end of a `with`."""

    def __init__(self, folder: Path, split: str, vocabulary: int) -> None:
        self.dtypes = dtypes(vocabulary)
        self.files = {array: array_file(folder, split, array).open("wb") for array in self.dtypes}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self.files.values():
            file.close()

    def append(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Write values behind those that are there."""
        for name, values in arrays.items():
            values.astype(self.dtypes[name], copy=False).tofile(self.files[name])
