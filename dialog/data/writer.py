"""The arrays of a split, written block by block."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dialog.data.dialogue import Dialogue, Turn
from dialog.data.examples import known, windows
from dialog.data.layout import Kept, kept
from dialog.data.manifest import ARRAYS, array_file, ids_dtype
from dialog.data.tokenizer import OTHER, Tokenizer

Integers = NDArray[np.int64]
Limits = dict[str, int]
"""`context_turns`, `max_source` and `max_target`, as `prepare` takes them."""


class Laid(NamedTuple):
    """A dialogue as it lies in the arrays: facts, in a run for each set of them that a responder knows, and turns."""

    facts: int
    lines: list[Turn]
    examples: list[
        tuple[int, int, int, int]
    ]  # lines: first fact, end of the facts, first turn of the context, response


class SplitWriter:
    """Appends blocks of dialogues to the arrays of a split, and closes them at the end of a `with`.

    Arrays of several writers join by being put one after the other: `offsets` moved by the ids before and without the
    first, `examples` moved by the lines before.
    """

    def __init__(self, folder: Path, split: str, tokenizer: Tokenizer, *, first_turns: bool, limits: Limits) -> None:
        self.tokenizer = tokenizer
        self.first_turns = first_turns
        self.context_turns = limits["context_turns"]
        self.max_source = limits["max_source"]
        self.max_target = limits["max_target"] if split == "train" else None
        self.dtypes = {**ARRAYS, "ids": ids_dtype(len(tokenizer))}
        self.files = {array: array_file(folder, split, array).open("wb") for array in self.dtypes}
        self.ids = self.lines = 0
        self._append("offsets", np.zeros(1))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for file in self.files.values():
            file.close()

    def write(self, block: list[Dialogue]) -> dict[str, int]:
        """Append dialogues that have turns, and count what they hold."""
        laid = [self._laid(dialogue) for dialogue in block]
        texts = [line.text for each in laid for line in each.lines]
        ids = self.tokenizer.encode_batch(texts)
        sizes = np.array([len(text.encode()) for text in texts])
        offsets = np.cumsum([0, *(1 + len(tokens) for tokens in ids)])
        examples = _examples(laid)
        parts = kept(offsets, examples, max_source=self.max_source, max_target=self.max_target)
        self._append("ids", np.fromiter(chain.from_iterable((OTHER, *tokens) for tokens in ids), self.dtypes["ids"]))
        self._append("offsets", offsets[1:] + self.ids)
        self._append("speakers", np.array([number for each in laid for number in _speakers(each.lines)]))
        self._append("bytes", sizes)
        self._append("examples", examples + self.lines)
        self._append("lengths", np.column_stack([parts.source_lengths, parts.target_lengths]))
        self.ids += int(offsets[-1])
        self.lines += len(texts)
        turns = np.array([place >= each.facts for each in laid for place in range(len(each.lines))])
        facts = {"facts": number} if (number := sum(len(dialogue.facts) for dialogue in block)) else {}
        return {
            **facts,
            "examples": len(examples),
            "tokens": int((np.diff(offsets) - 1)[turns].sum()),
            "bytes": int(sizes[turns].sum()),
            "target bytes": int(sizes[examples[:, 3]].sum()),
            **self._cuts(parts, kept(offsets, examples, max_source=None, max_target=None)),
        }

    def _laid(self, dialogue: Dialogue) -> Laid:
        chosen = windows(len(dialogue.turns), context_turns=self.context_turns, first_turns=self.first_turns)
        facts: list[Turn] = []
        runs: dict[tuple[Turn, ...], tuple[int, int]] = {}
        read = []
        for first, response in chosen:
            own = known(dialogue.facts, dialogue.turns[response].speaker)
            if own not in runs:
                runs[own] = len(facts), len(facts) + len(own)
                facts += own
            read.append((*runs[own], first, response))
        number = len(facts)
        examples = [(start, end, number + first, number + response) for start, end, first, response in read]
        return Laid(number, [*facts, *dialogue.turns], examples)

    def _cuts(self, parts: Kept, whole: Kept) -> dict[str, int]:
        counts = {"truncated: source": int((parts.source_lengths < whole.source_lengths).sum())}
        if self.max_target is not None:
            counts["truncated: target"] = int((parts.target_lengths < whole.target_lengths).sum())
        tokens = {"source tokens": int(parts.source_lengths.sum()), "target tokens": int(parts.target_lengths.sum())}
        return {**counts, **tokens}

    def _append(self, array: str, values: NDArray[Any]) -> None:
        values.astype(self.dtypes[array]).tofile(self.files[array])


def _examples(laid: list[Laid]) -> Integers:
    """The examples [N, 4] of dialogues one after the other."""
    rows = []
    start = 0
    for each in laid:
        rows += [[start + line for line in example] for example in each.examples]
        start += len(each.lines)
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _speakers(lines: list[Turn]) -> list[int]:
    numbers: dict[str, int] = {}
    return [numbers.setdefault(line.speaker, len(numbers)) for line in lines]
