"""The arrays of a split: a block's made from its dialogues, and appended to files."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dialog.data.dialogue import Dialogue, Turn
from dialog.data.examples import DialogueWindows, facts_known_to
from dialog.data.store.layout import Kept, kept
from dialog.data.store.manifest import ARRAYS, array_file, ids_dtype
from dialog.data.tokenizers.tokenizer import OTHER, Tokenizer

Integers = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
Counts = Counter[str]
MARKS = "marks"
"""[dialogues, 2] hashes of ids and of words, by which ids that stand for two dialogues are found; not kept."""


class Limits(NamedTuple):
    """The most source ids and target ids of an example; targets are cut in the training split only."""

    max_source: int
    max_target: int


class Laid(NamedTuple):
    """A dialogue as it lies in the arrays: facts, in a run for each set of them that a responder knows, and turns.

    Its examples are lines: first fact, end of the facts, first turn of the context, response.
    """

    facts: int
    lines: list[Turn]
    examples: list[tuple[int, int, int, int]]


def encode(
    chosen: Sequence[DialogueWindows], tokenizer: Tokenizer, limits: Limits, *, train: bool
) -> tuple[Arrays, Counts]:
    """The arrays of a block, flat and counted from its own beginning, and what they hold."""
    laid = [lay(each) for each in chosen]
    texts = [line.text for each in laid for line in each.lines]
    ids = tokenizer.encode_batch(texts)
    ends = np.cumsum(np.fromiter((1 + len(tokens) for tokens in ids), np.int64, len(ids)))
    offsets = np.concatenate([[0], ends])
    examples = _examples(laid)
    sizes = np.fromiter((len(text.encode()) for text in texts), np.int64, len(texts))
    max_target = limits.max_target if train else None
    parts = kept(offsets, examples, max_source=limits.max_source, max_target=max_target)
    turns = np.array([place >= each.facts for each in laid for place in range(len(each.lines))], dtype=bool)
    counts = Counter(
        {
            "facts": sum(len(each.dialogue.facts) for each in chosen),
            "examples": len(examples),
            "tokens": int((np.diff(offsets) - 1)[turns].sum()),
            "bytes": int(sizes[turns].sum()),
            "target bytes": int(sizes[examples[:, 3]].sum()),
            **_cuts(parts, kept(offsets, examples, max_source=None, max_target=None)),
        }
    )
    arrays: Arrays = {
        "ids": np.fromiter(chain.from_iterable((OTHER, *tokens) for tokens in ids), np.int64, int(offsets[-1])),
        "offsets": ends,
        "speakers": np.fromiter((number for each in laid for number in _speakers(each.lines)), np.int64, len(texts)),
        "bytes": sizes,
        "examples": examples.ravel(),
        "lengths": np.column_stack([parts.source_lengths, parts.target_lengths]).ravel(),
        MARKS: np.array([_marks(each.dialogue) for each in chosen], np.uint64).ravel(),
    }
    return arrays, counts


def lay(chosen: DialogueWindows) -> Laid:
    """How a dialogue lies in the arrays."""
    dialogue = chosen.dialogue
    facts: list[Turn] = []
    runs: dict[tuple[Turn, ...], tuple[int, int]] = {}
    of: dict[str, tuple[int, int]] = {}
    read = []
    for first, response in chosen.windows:
        speaker = dialogue.turns[response].speaker
        if speaker not in of:
            own = facts_known_to(dialogue.facts, speaker)
            if own not in runs:
                runs[own] = len(facts), len(facts) + len(own)
                facts += own
            of[speaker] = runs[own]
        read.append((*of[speaker], first, response))
    number = len(facts)
    examples = [(start, end, number + first, number + response) for start, end, first, response in read]
    return Laid(number, [*facts, *dialogue.turns], examples)


def _examples(laid: Sequence[Laid]) -> Integers:
    """The examples [N, 4] of dialogues one after the other."""
    rows = []
    start = 0
    for each in laid:
        rows += [[start + line for line in example] for example in each.examples]
        start += len(each.lines)
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _cuts(parts: Kept, whole: Kept) -> dict[str, int]:
    return {
        "truncated: source": int((parts.source_lengths < whole.source_lengths).sum()),
        "truncated: target": int((parts.target_lengths < whole.target_lengths).sum()),
        "source tokens": int(parts.source_lengths.sum()),
        "target tokens": int(parts.target_lengths.sum()),
    }


def _speakers(lines: Sequence[Turn]) -> list[int]:
    numbers: dict[str, int] = {}
    return [numbers.setdefault(line.speaker, len(numbers)) for line in lines]


def _marks(dialogue: Dialogue) -> tuple[int, int]:
    said, known = ([(line.speaker, line.text) for line in lines] for lines in (dialogue.turns, dialogue.facts))
    return mark(dialogue.id), mark(repr((said, known)))


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
