"""Encode a block of dialogues as flat arrays."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.data.dialogue import Dialogue, Turn
from dialog.data.examples import DialogueWindows, facts_known_to
from dialog.data.preparation.job import Limits
from dialog.data.store.layout import ROLES, truncate
from dialog.data.store.length_classes import LENGTHS
from dialog.data.store.manifest import ARRAYS, ASCENDING
from dialog.data.tokenizers.tokenizer import OTHER, Tokenizer

Integers = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]
Counts = Counter[str]
MARKS = "marks"
"""[dialogues, 2] hashes of each id and its dialogue's text, to find ids of two dialogues; removed
after the merge.
"""
BLOCK_ARRAYS = (*ARRAYS, *ASCENDING, LENGTHS, MARKS)
"""Arrays of a block; its ascending arrays count from 0."""


class DialogueLines(NamedTuple):
    """The lines of a dialogue in the arrays: facts, one run for each distinct set that a responder
    knows, then turns.

    An example is (first fact, end of the facts, first turn of the context, response), as line
    numbers.
    """

    facts: int  # number of lines before the turns
    lines: list[Turn]
    examples: list[tuple[int, int, int, int]]


def encode(
    kept: Sequence[DialogueWindows],
    tokenizer: Tokenizer,
    limits: Limits,
    *,
    train: bool,
    layout: str = ROLES,
) -> tuple[Arrays, Counts]:
    """Return the flat arrays of a block, with offsets and lines counted from its start, and their
    counts.
    """
    dialogues = [dialogue_lines(dialogue) for dialogue in kept]
    texts = [line.text for dialogue in dialogues for line in dialogue.lines]
    ids = tokenizer.encode_batch(texts)
    ends = np.cumsum(np.fromiter((1 + len(tokens) for tokens in ids), np.int64, len(ids)))
    offsets = np.concatenate([[0], ends])
    examples = _examples(dialogues)
    sizes = np.fromiter((len(text.encode()) for text in texts), np.int64, len(texts))
    unknown = (
        tokenizer.unknown_bytes(text, tokens) for text, tokens in zip(texts, ids, strict=True)
    )
    max_target = limits.max_target if train else None
    spans = truncate(
        offsets, examples, max_source=limits.max_source, max_target=max_target, layout=layout
    )
    whole = truncate(offsets, examples, max_source=None, max_target=None)
    is_turn = np.array(
        [line >= d.facts for d in dialogues for line in range(len(d.lines))], dtype=bool
    )
    counts = Counter(
        {
            "facts": sum(len(dialogue.facts) for dialogue, _ in kept),
            "examples": len(examples),
            "tokens": int((np.diff(offsets) - 1)[is_turn].sum()),
            "bytes": int(sizes[is_turn].sum()),
            "target bytes": int(sizes[examples[:, 3]].sum()),
            "truncated: source": int((spans.source_lengths < whole.source_lengths).sum()),
            "truncated: target": int((spans.target_lengths < whole.target_lengths).sum()),
            "source tokens": int(spans.lengths_in(layout).sum()),
            "target tokens": int(spans.target_lengths.sum()),
        }
    )
    speakers: list[int] = []
    for dialogue in dialogues:
        numbers: dict[str, int] = {}
        speakers += [numbers.setdefault(line.speaker, len(numbers)) for line in dialogue.lines]
    responses = examples[:, 3]
    fact_lines = examples[:, 1] - examples[:, 0]
    arrays: Arrays = {
        "ids": np.fromiter(
            chain.from_iterable((OTHER, *tokens) for tokens in ids), np.int64, int(offsets[-1])
        ),
        "offsets": ends,
        "speakers": np.fromiter(speakers, np.int64, len(texts)),
        "bytes": sizes,
        "unknown_bytes": np.fromiter(unknown, np.int64, len(texts)),
        "responses": responses,
        "contexts": responses - examples[:, 2],
        "facts": np.where(fact_lines > 0, responses - examples[:, 0], 0),
        "fact_lines": fact_lines,
        LENGTHS: np.column_stack([spans.lengths_in(layout), spans.target_lengths]).ravel(),
        MARKS: np.array([_marks(dialogue) for dialogue, _ in kept], np.uint64).ravel(),
    }
    return arrays, counts


def dialogue_lines(kept: DialogueWindows) -> DialogueLines:
    """Return the lines and examples of a dialogue; facts are looked up once per speaker."""
    dialogue = kept.dialogue
    facts: list[Turn] = []
    runs: dict[tuple[Turn, ...], tuple[int, int]] = {}
    run_of: dict[str, tuple[int, int]] = {}
    windows = []
    for first, response in kept.windows:
        speaker = dialogue.turns[response].speaker
        if speaker not in run_of:
            own = facts_known_to(dialogue.facts, speaker)
            if own not in runs:
                runs[own] = len(facts), len(facts) + len(own)
                facts += own
            run_of[speaker] = runs[own]
        windows.append((*run_of[speaker], first, response))
    number = len(facts)
    examples = [
        (start, end, number + first, number + response) for start, end, first, response in windows
    ]
    return DialogueLines(number, [*facts, *dialogue.turns], examples)


def _examples(dialogues: Sequence[DialogueLines]) -> Integers:
    """Return the examples [N, 4] of consecutive dialogues, as line numbers of the block."""
    rows = []
    start = 0
    for dialogue in dialogues:
        rows += [[start + line for line in example] for example in dialogue.examples]
        start += len(dialogue.lines)
    return np.array(rows, dtype=np.int64).reshape(-1, 4)


def _marks(dialogue: Dialogue) -> tuple[int, int]:
    turns, facts = (
        [(line.speaker, line.text) for line in lines] for lines in (dialogue.turns, dialogue.facts)
    )
    return mark(dialogue.id), mark(repr((turns, facts)))


def mark(text: str) -> int:
    """Return a 64-bit hash."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
