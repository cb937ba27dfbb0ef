"""The arrays of a split, written block by block."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dialog.data.dialogue import Dialogue
from dialog.data.examples import windows
from dialog.data.layout import source_lengths, target_lengths
from dialog.data.manifest import ARRAYS, array_file, ids_dtype
from dialog.data.tokenizer import Tokenizer

Integers = NDArray[np.int64]
Limits = dict[str, int]
"""`context_turns`, `max_source` and `max_target`, as `prepare` takes them."""


class SplitWriter:
    """Appends blocks of dialogues to the arrays of a split, and closes them at the end of a `with`."""

    def __init__(self, folder: Path, split: str, tokenizer: Tokenizer, *, first_turns: bool, limits: Limits) -> None:
        self.tokenizer = tokenizer
        self.first_turns = first_turns
        self.limits = limits
        self.cuts_targets = split == "train"
        self.dtypes = {**ARRAYS, "ids": ids_dtype(len(tokenizer))}
        self.files = {array: array_file(folder, split, array).open("wb") for array in self.dtypes}
        self.ids = self.turns = 0
        self._append("offsets", np.zeros(1))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self.files.values():
            file.close()

    def write(self, block: list[Dialogue]) -> dict[str, int]:
        """Append dialogues that have turns, and count what they hold."""
        texts = [turn.text for dialogue in block for turn in dialogue.turns]
        ids = self.tokenizer.encode_batch(texts)
        sizes = np.array([len(text.encode()) for text in texts])
        offsets = np.cumsum([0, *map(len, ids)])
        examples = np.array(self._examples(block), dtype=np.int64).reshape(-1, 2)
        self._append("ids", np.fromiter(chain.from_iterable(ids), self.dtypes["ids"]))
        self._append("offsets", offsets[1:] + self.ids)
        self._append("speakers", np.array([number for dialogue in block for number in _speakers(dialogue)]))
        self._append("bytes", sizes)
        self._append("examples", examples + self.turns)
        self.ids += int(offsets[-1])
        self.turns += len(texts)
        return self._counts(offsets, examples, sizes)

    def _examples(self, block: list[Dialogue]) -> list[tuple[int, int]]:
        pairs: list[tuple[int, int]] = []
        start = 0
        for dialogue in block:
            turns = len(dialogue.turns)
            chosen = windows(turns, context_turns=self.limits["context_turns"], first_turns=self.first_turns)
            pairs += [(start + first, start + response) for first, response in chosen]
            start += turns
        return pairs

    def _counts(self, offsets: Integers, examples: Integers, sizes: Integers) -> dict[str, int]:
        sources, targets = source_lengths(offsets, examples), target_lengths(offsets, examples)
        counts = {
            "examples": len(examples),
            "tokens": int(offsets[-1]),
            "bytes": int(sizes.sum()),
            "target bytes": int(sizes[examples[:, 1]].sum()),
            "truncated: source": int((sources > self.limits["max_source"]).sum()),
        }
        if self.cuts_targets:
            counts["truncated: target"] = int((targets > self.limits["max_target"]).sum())
            targets = np.minimum(targets, self.limits["max_target"])
        sources = np.minimum(sources, self.limits["max_source"])
        return {**counts, "source tokens": int(sources.sum()), "target tokens": int(targets.sum())}

    def _append(self, array: str, values: NDArray[Any]) -> None:
        values.astype(self.dtypes[array]).tofile(self.files[array])


def _speakers(dialogue: Dialogue) -> list[int]:
    numbers: dict[str, int] = {}
    return [numbers.setdefault(turn.speaker, len(numbers)) for turn in dialogue.turns]
