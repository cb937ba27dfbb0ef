"""The token store: prepared token ids, memory-mapped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.data.batching import Batch, collate, pack, with_turn_shape
from dialog.data.store.arrays import AscendingArray, StoredArray
from dialog.data.store.layout import (
    ROLES,
    Lines,
    facts_ids,
    padded_pairs,
    source_ids,
    target_ids,
    truncate,
)
from dialog.data.store.length_classes import LengthClasses, read_classes
from dialog.data.store.manifest import (
    ARRAYS,
    ASCENDING,
    TOKENIZER,
    ascending_array,
    read_manifest,
    stored_array,
)
from dialog.data.tokenizers.tokenizer import Tokenizer

Integers = NDArray[np.int64]
Retokenise = Callable[[list[int], np.random.Generator], list[int]]
"""Maps the ids of a turn to other ids of the same text."""
RoleLines = list[tuple[bool, list[int]]]
"""For each line, whether it is the responder's, and its token ids."""


class Store:
    """The examples of one split of prepared data, memory-mapped.

    Row i is the i-th example that `dialog.data.examples.examples` yields for the split. Targets are
    truncated to `max_target` in the training split only. Opening a split takes constant time and
    memory; the arrays are checked block by block, each block when a process first reads it.

    Raises:
        UserError: the folder holds no prepared data, or damaged data; when reading, a block that is
            needed is damaged.
    """

    def __init__(self, folder: Path, split: str) -> None:
        self.folder = folder
        self.split = split
        self.manifest = read_manifest(folder)
        settings = self.manifest["settings"]
        self.max_source: int = settings["max_source"]
        self.layout: str = settings["layout"]
        self.max_target: int | None = settings["max_target"] if split == "train" else None
        arrays = {name: stored_array(folder, self.manifest, split, name) for name in ARRAYS}
        ascending = {
            name: ascending_array(folder, self.manifest, split, name) for name in ASCENDING
        }
        self._lines = Lines(arrays["ids"], ascending["offsets"], arrays["speakers"])
        self._bytes = arrays["bytes"]
        self._unknown_bytes = arrays["unknown_bytes"]
        self._examples = StoredExamples(
            ascending["responses"], arrays["contexts"], arrays["facts"], arrays["fact_lines"]
        )

    def __len__(self) -> int:
        return len(self._examples.responses)

    @property
    def lengths(self) -> Integers:
        """Source length and target length without `<s>` of each row [N, 2]; computed anew."""
        return self.lengths_of(np.arange(len(self)))

    def lengths_of(self, rows: Sequence[int] | Integers) -> Integers:
        """Return source length and target length without `<s>` of these rows [B, 2]."""
        spans = truncate(
            self._lines.offsets,
            self._examples.lines(np.asarray(rows)),
            max_source=self.max_source,
            max_target=self.max_target,
            layout=self.layout,
        )
        return np.column_stack([spans.lengths_in(self.layout), spans.target_lengths])

    @property
    def counts(self) -> dict[str, int]:
        """Numbers of kept, dropped and truncated items of this split, by reason."""
        return dict(self.manifest["splits"][self.split])

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the ids."""
        return Tokenizer.load(self.folder / TOKENIZER)

    @cached_property
    def classes(self) -> LengthClasses:
        """The rows sorted by length."""
        return read_classes(self.folder, self.manifest, self.split)

    def source(self, row: int) -> Integers:
        """Return the source ids of an example."""
        sources, *_ = self._pairs(np.array([row]))
        return sources.reshape(-1)

    def target(self, row: int) -> Integers:
        """Return the target ids of an example, from `<s>` to `</s>`."""
        _, targets, _ = self._pairs(np.array([row]))
        return targets.reshape(-1)

    def target_bytes(self, rows: Sequence[int] | Integers) -> int:
        """Return the UTF-8 bytes of the rows' responses, untruncated."""
        return int(self._bytes[self._examples.responses[np.asarray(rows)]].sum())

    def target_unknown_bytes(self, rows: Sequence[int] | Integers) -> int:
        """Return the UTF-8 bytes of the rows' responses that are encoded as `<unk>`,
        untruncated.
        """
        return int(self._unknown_bytes[self._examples.responses[np.asarray(rows)]].sum())

    def batch(self, rows: Sequence[int] | Integers) -> Batch:
        """Return the examples of these rows, in this order."""
        chosen = np.asarray(rows, dtype=np.int64)
        source, target, facts = self._pairs(chosen)
        return with_turn_shape(pack(source, target, facts, chosen, **self._sizes(chosen)))

    def lines(self, row: int) -> tuple[RoleLines, RoleLines]:
        """Return the facts and the turns of an example's context, untruncated."""
        fact, facts_end, first, response = self._examples.lines(np.array(row)).tolist()
        return self._role_lines(range(fact, facts_end), response), self._role_lines(
            range(first, response), response
        )

    def retokenised(self, rows: Integers, tokenise: Retokenise, *, seed: int, epoch: int) -> Batch:
        """Return the examples of these rows with other ids of the same texts, drawn for each seed,
        epoch and row.

        The limits are those of `batch`; texts that take more ids are truncated to less text.
        """
        examples = [
            self._retokenise(row, tokenise, np.random.default_rng([seed, epoch, row]))
            for row in rows.tolist()
        ]
        pairs = [pair for pair, _ in examples]
        facts = [length for _, length in examples]
        return with_turn_shape(collate(pairs, rows.tolist(), facts=facts, **self._sizes(rows)))

    def _sizes(self, rows: Integers) -> dict[str, int]:
        return {
            "target_bytes": self.target_bytes(rows),
            "target_unknown_bytes": self.target_unknown_bytes(rows),
        }

    def _retokenise(
        self, row: int, tokenise: Retokenise, random: np.random.Generator
    ) -> tuple[tuple[list[int], list[int]], int]:
        """Return source and target ids of an example, and the number of source ids that are
        facts.
        """
        fact, facts_end, first, response = self._examples.lines(np.array(row)).tolist()
        facts = self._retokenise_lines(range(fact, facts_end), response, tokenise, random)
        turns = self._retokenise_lines(range(first, response), response, tokenise, random)
        ((_, reply),) = self._retokenise_lines(
            range(response, response + 1), response, tokenise, random
        )
        source = source_ids(turns, max_source=self.max_source, facts=facts, layout=self.layout)
        facts_length = len(facts_ids(facts, max_source=self.max_source))
        if self.layout != ROLES:
            facts_length = max(0, facts_length - 1)  # its first role is removed
        return (source, target_ids(reply, max_target=self.max_target)), facts_length

    def _retokenise_lines(
        self, lines: range, response: int, tokenise: Retokenise, random: np.random.Generator
    ) -> list[tuple[bool, list[int]]]:
        """Return for each line whether it is the responder's, and its new ids."""
        return [(own, tokenise(ids, random)) for own, ids in self._role_lines(lines, response)]

    def _role_lines(self, lines: range, response: int) -> RoleLines:
        bounds = self._lines.offsets[lines.start : lines.stop + 1].tolist()
        own = (
            self._lines.speakers[lines.start : lines.stop] == self._lines.speakers[response]
        ).tolist()
        ids = [self._lines.ids[start + 1 : end].tolist() for start, end in pairwise(bounds)]
        return list(zip(own, ids, strict=True))

    def _pairs(self, rows: Integers) -> tuple[Integers, Integers, Integers]:
        return padded_pairs(
            self._lines,
            self._examples.lines(rows),
            max_source=self.max_source,
            max_target=self.max_target,
            layout=self.layout,
        )


class StoredExamples(NamedTuple):
    """The lines of the examples of a split."""

    responses: AscendingArray  # [N]
    contexts: StoredArray  # [N]: number of turns of the context
    facts: StoredArray  # [N]: number of lines from the first fact to the response
    fact_lines: StoredArray  # [N]: number of facts

    def lines(self, rows: Integers) -> Integers:
        """Return first fact, end of the facts, first turn of the context and response of these rows
        [..., 4].
        """
        response = self.responses[rows]
        fact = response - self.facts[rows].astype(np.int64)
        facts_end = fact + self.fact_lines[rows].astype(np.int64)
        first = response - self.contexts[rows].astype(np.int64)
        return np.stack([fact, facts_end, first, response], axis=-1)
