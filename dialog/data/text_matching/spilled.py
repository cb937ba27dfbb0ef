"""Hashes of a corpus of any size, on disk: as they come, or sorted, within fixed memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import SEEK_END
from tempfile import TemporaryFile
from typing import IO, Any, NamedTuple
from weakref import finalize

import numpy as np
from numpy.typing import NDArray

from dialog.data.dialogue import Dialogue
from dialog.data.text_matching.fingerprints import (
    FACTOR,
    Flags,
    Hashes,
    Integers,
    hash_facts,
    hash_texts,
)

CHUNK = 1 << 18
"""Turns of a chunk, about: a chunk holds whole dialogues."""
RUN = 1 << 20
"""Rows that are sorted in memory."""
BUCKETS = 1 << 12
"""Buckets of rows by the leading digits of their first hash; a multiple of them is merged at a
time.
"""


class HashChunk(NamedTuple):
    """Hashes of consecutive dialogues of a split."""

    first: int  # number of the first dialogue in the split
    turns: Hashes  # [turns]
    responses: Flags  # [turns], whether the turn is a response
    facts: Hashes  # [dialogues]
    offsets: Integers  # [dialogues + 1], first turn of each dialogue, then the number of turns

    @property
    def replies(self) -> Integers:
        """The positions of all turns that follow another turn [pairs]."""
        is_reply = np.ones(len(self.turns), dtype=bool)
        is_reply[self.offsets[:-1][np.diff(self.offsets) > 0]] = False
        return np.flatnonzero(is_reply)

    def contexts(self) -> Hashes:
        """Hash the context of each turn: the facts and all turns up to and including it [turns]."""
        contexts = self.turns.copy()
        lengths = np.diff(self.offsets)
        # the longest first
        order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
        starts = self.offsets[:-1][order]
        lengths = lengths[order]
        contexts[starts] += self.facts[order] * FACTOR
        for turn in range(1, int(lengths.max(initial=0))):
            positions = starts[: np.searchsorted(-lengths, -turn)] + turn
            contexts[positions] += contexts[positions - 1] * FACTOR
        return contexts


class SpilledHashes:
    """Hashes of all turns and facts of a split, added one dialogue after the other.

    They are in a temporary file, 9 bytes per turn and 12 per dialogue; a chunk is in memory.

    Args:
        normalise: Normalisation applied before hashing; texts that it maps to one string are equal.
    """

    def __init__(self, normalise: Callable[[str], str]) -> None:
        self.normalise = normalise
        self.turns = 0
        self.responses = 0
        self.dialogues = 0
        self._file = _temporary_file(self)
        self._sizes: list[tuple[int, int]] = []  # turns and dialogues of each chunk in the file
        self._start()

    def add(self, dialogue: Dialogue, responses: Flags | None = None) -> None:
        """Append a dialogue, and which of its turns are responses [turns]; None for no turn."""
        if responses is None:
            responses = np.zeros(len(dialogue.turns), dtype=bool)
        self._hashes.append(hash_texts(self.normalise(turn.text) for turn in dialogue.turns))
        self._facts.append(hash_facts(dialogue, self.normalise))
        self._flags.append(responses)
        self._waiting += len(dialogue.turns)
        self.turns += len(dialogue.turns)
        self.responses += int(responses.sum())
        self.dialogues += 1
        if self._waiting >= CHUNK:
            self._spill()

    def chunks(self) -> Iterator[HashChunk]:
        """Yield all dialogues in order."""
        self._spill()
        first = start = 0
        for turns, dialogues in self._sizes:
            self._file.seek(start)
            hashes = self._read(turns, np.uint64)
            responses = self._read(turns, np.bool_)
            facts = self._read(dialogues, np.uint64)
            lengths = self._read(dialogues, np.uint32)
            start = self._file.tell()
            offsets = np.append(0, np.cumsum(lengths, dtype=np.int64))
            yield HashChunk(first, hashes, responses, facts, offsets)
            first += dialogues

    def _read(self, count: int, kind: Any) -> NDArray[Any]:
        return np.frombuffer(self._file.read(count * np.dtype(kind).itemsize), kind)

    def _start(self) -> None:
        self._hashes: list[Hashes] = []
        self._facts: list[Hashes] = []
        self._flags: list[Flags] = []
        self._waiting = 0

    def _spill(self) -> None:
        if not self._hashes:
            return
        self._file.seek(0, SEEK_END)
        lengths = np.fromiter(map(len, self._hashes), np.uint32, len(self._hashes))
        for column in (self._hashes, self._flags, self._facts):
            self._file.write(np.concatenate(column).tobytes())
        self._file.write(lengths.tobytes())
        self._sizes.append((self._waiting, len(lengths)))
        self._start()


class SortedRows(NamedTuple):
    """Distinct pairs of hashes, sorted, and the sums of their two weights [N]."""

    first: Hashes
    second: Hashes
    weights: NDArray[np.uint64]  # [N, 2]


class SortedRuns:
    """Pairs of hashes with two weights each, sorted on disk; equal pairs are added up.

    `RUN` rows are sorted in memory and written as a run to a temporary file, 32 bytes for each
    distinct pair. The runs are merged range by range: a range is about `RUN` rows, and never splits
    the rows of one first hash. Memory is 32 bytes times `RUN`, a few times over, and 32 KiB for
    each run; more only if one bucket holds more distinct rows than `RUN`.
    """

    def __init__(self) -> None:
        self._file = _temporary_file(self)
        self._bounds: list[Integers] = []  # of each run: first row of each bucket, from its start
        self._waiting: list[NDArray[np.uint64]] = []
        self._rows = 0

    def add(self, first: Hashes, second: Hashes, weights: NDArray[Any]) -> None:
        """Add pairs of hashes [N], [N] and their weights [N, 2]."""
        self._waiting.append(np.column_stack([first, second, weights.astype(np.uint64)]))
        self._rows += len(first)
        if self._rows >= RUN:
            self._spill()

    def ranges(self) -> Iterator[SortedRows]:
        """Yield the distinct pairs in order, range by range."""
        if self._waiting:
            self._spill()
        if not self._bounds:
            return
        sizes = np.diff(np.sum(self._bounds, axis=0))
        starts = np.cumsum([0, *(bounds[-1] for bounds in self._bounds)])
        bucket = 0
        while bucket < BUCKETS:
            fitting = int(np.searchsorted(np.cumsum(sizes[bucket:]), RUN, side="right"))
            end = min(BUCKETS, bucket + max(1, fitting))
            parts = [
                self._read(int(start + bounds[bucket]), int(start + bounds[end]))
                for start, bounds in zip(starts, self._bounds, strict=False)
            ]
            rows = _added_up(np.concatenate(parts))
            if len(rows):
                yield SortedRows(rows[:, 0], rows[:, 1], rows[:, 2:])
            bucket = end

    def _read(self, start: int, end: int) -> NDArray[np.uint64]:
        self._file.seek(32 * start)
        return np.frombuffer(self._file.read(32 * (end - start)), np.uint64).reshape(-1, 4)

    def _spill(self) -> None:
        rows = _added_up(np.concatenate(self._waiting))
        self._file.seek(0, SEEK_END)
        self._file.write(rows.tobytes())
        borders = np.arange(1, BUCKETS, dtype=np.uint64) * np.uint64(2**64 // BUCKETS)
        inner = np.searchsorted(np.ascontiguousarray(rows[:, 0]), borders)
        self._bounds.append(np.concatenate([[0], inner, [len(rows)]]))
        self._waiting = []
        self._rows = 0


def _added_up(rows: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Sort rows (hash, hash, weight, weight) [N, 4] and add up the weights of equal pairs."""
    rows = rows[np.lexsort((rows[:, 1], rows[:, 0]))]
    new = np.ones(len(rows), dtype=bool)
    new[1:] = (rows[1:, :2] != rows[:-1, :2]).any(axis=1)
    starts = np.flatnonzero(new)
    if len(starts) == len(rows):
        return rows
    sums: NDArray[np.uint64] = np.add.reduceat(rows[:, 2:], starts)
    return np.column_stack([rows[starts, :2], sums])


def _temporary_file(owner: object) -> IO[bytes]:
    """Open a file without a name in the folder of TMPDIR; it is removed with its owner."""
    file = TemporaryFile()  # noqa: SIM115 - closed by the finalizer
    finalize(owner, file.close)
    return file


def number_of_distinct(parts: Iterator[Hashes]) -> int:
    """Return the number of distinct hashes of all parts."""
    runs = SortedRuns()
    for hashes in parts:
        zeros = np.zeros(len(hashes), np.uint64)
        runs.add(hashes, zeros, np.column_stack([zeros, zeros]))
    return sum(len(rows.first) for rows in runs.ranges())
