"""Prepared token ids, read where they lie on disk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dialog.data.batching import Batch, collate
from dialog.data.layout import source_ids, source_lengths, target_ids, target_lengths
from dialog.data.manifest import ARRAYS, TOKENIZER, array_file, ids_dtype, read_manifest
from dialog.data.tokenizer import Tokenizer

Integers = NDArray[np.int64]


class Store:
    """The examples of one split of a folder that `prepare` has built, memory-mapped.

    Row i is the i-th example that `dialog.data.examples.examples` yields for that split. Targets are cut to
    `max_target` in the training split only.

    Raises:
        UserError: the folder is no prepared data, or damaged.
    """

    def __init__(self, folder: Path, split: str) -> None:
        self.folder = folder
        self.split = split
        self.manifest = read_manifest(folder)
        settings = self.manifest["settings"]
        self.max_source: int = settings["max_source"]
        self.max_target: int | None = settings["max_target"] if split == "train" else None
        self._ids = self._array("ids", ids_dtype(self.manifest["vocabulary"]))
        self._offsets, self._speakers, self._bytes, flat = (self._array(name, ARRAYS[name]) for name in ARRAYS)
        self._examples = flat.reshape(-1, 2)

    def __len__(self) -> int:
        return len(self._examples)

    @property
    def counts(self) -> dict[str, int]:
        """What was kept, dropped and cut in this split, by reason."""
        return dict(self.manifest["splits"][self.split])

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer that the ids are of."""
        return Tokenizer.load(self.folder / TOKENIZER)

    @cached_property
    def source_lengths(self) -> Integers:
        """Length of each source [N]."""
        return np.minimum(source_lengths(self._offsets, self._examples), self.max_source)

    @cached_property
    def target_lengths(self) -> Integers:
        """Length of each target without `<s>` [N]: the tokens that are predicted."""
        lengths = target_lengths(self._offsets, self._examples)
        return lengths if self.max_target is None else np.minimum(lengths, self.max_target)

    @cached_property
    def target_bytes(self) -> Integers:
        """Bytes of each response's text in UTF-8 [N], also where the target is cut."""
        return np.asarray(self._bytes[self._examples[:, 1]])

    def source(self, row: int) -> Integers:
        """Source ids of an example."""
        return np.array(self._pair(row)[0], dtype=np.int64)

    def target(self, row: int) -> Integers:
        """Target ids of an example, from `<s>` to `</s>`."""
        return np.array(self._pair(row)[1], dtype=np.int64)

    def batch(self, rows: Sequence[int] | Integers) -> Batch:
        """The examples of these rows, in this order."""
        chosen = [int(row) for row in rows]
        return collate(map(self._pair, chosen), chosen, target_bytes=int(self.target_bytes[chosen].sum()))

    def _pair(self, row: int) -> tuple[list[int], list[int]]:
        first, response = self._examples[row].tolist()
        bounds = self._offsets[first : response + 2].tolist()
        ids = self._ids[bounds[0] : bounds[-1]].tolist()
        *context, reply = [ids[start - bounds[0] : end - bounds[0]] for start, end in pairwise(bounds)]
        own = self._speakers[first:response] == self._speakers[response]
        source = source_ids(zip(own.tolist(), context, strict=True), max_source=self.max_source)
        return source, target_ids(reply, max_target=self.max_target)

    def _array(self, name: str, dtype: str) -> NDArray[np.int64]:
        mapped = np.memmap(array_file(self.folder, self.split, name), dtype=dtype, mode="r")
        return mapped.view(np.ndarray)  # slices of a memmap itself are ten times slower
