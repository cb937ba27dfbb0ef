"""Statistics of attention over the examples of a split, from their text.

Shapes: B rows, S source tokens.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dialog.analysis.attention.batch_maps import Examples
from dialog.analysis.attention.statistics import statistics
from dialog.analysis.attention.token_kinds import TokenKinds
from dialog.data.batching import collate
from dialog.data.dialogue import Example
from dialog.data.gold_alignment import alignment
from dialog.data.store.layout import ROLES, encode_example
from dialog.data.store.length_classes import by_length
from dialog.data.store.plan import Plan
from dialog.data.tokenizers.tokenizer import PAD, UNK, Tokenizer
from dialog.models.seq2seq import Seq2Seq

BLOCK = 4096
"""Number of examples that are sorted by length together; bounds the memory, whatever the size of the split."""
SAMPLE = 64
"""Number of examples on which agreement with erasure and gradients is measured."""


class Reservoir:
    """Uniform sample of a stream, the same for streams of the same length; Vitter 1985, algorithm R."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.items: list[Example] = []

    def watch(self, stream: Iterable[Example]) -> Iterator[Example]:
        """Yield the stream and draw from it."""
        generator = random.Random(0)
        for number, item in enumerate(stream):
            place = number if number < self.size else generator.randrange(number + 1)
            if place < self.size:
                self.items[place : place + 1] = [item]
            yield item


def split_statistics(
    model: Seq2Seq,
    tokenizer: Tokenizer,
    examples: Iterable[Example],
    *,
    max_source: int,
    layout: str = ROLES,
    budget: int = 8192,
    sample: int = SAMPLE,
) -> dict[str, Any]:
    """Return the `statistics` of a stream of examples, with references that are not truncated.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        examples: Examples of a split.
        max_source: Tokens to which a source is truncated, as in training.
        layout: Layout of a source.
        budget: Padded tokens of a batch.
        sample: Number of examples for ``erasure`` and ``gradient``.
    """
    reservoir = Reservoir(sample)
    stream = reservoir.watch(examples)
    encoding = Encoding(tokenizer, max_source, layout)
    blocks = iter(lambda: list(islice(stream, BLOCK)), [])
    batches = (batch for block in blocks for batch in encoding.batches(block, budget))
    sampled = (batch for example in reservoir.items for batch in encoding.batches([example], budget))
    return statistics(model, batches, TokenKinds.of(tokenizer), sample=sampled, budget=budget)


@dataclass(frozen=True)
class Encoding:
    """From text to batches, laid out as in training."""

    tokenizer: Tokenizer
    max_source: int
    layout: str

    def batches(self, examples: Sequence[Example], budget: int) -> Iterator[Examples]:
        """Yield all examples in batches of similar length, under a budget of padded tokens."""
        pairs = [self.pair(example) for example in examples]
        lengths = by_length(
            np.array([len(source) for source, _ in pairs]), np.array([len(target) - 1 for _, target in pairs])
        )
        for rows in Plan(lengths, budget=budget).batches():
            batch = collate(pairs[row] for row in rows)
            chosen = [examples[row] for row in rows]
            gold = [self.alignment(example) for example in chosen]
            yield Examples(batch.source, batch.target, self.with_roles(chosen, batch.source), gold)

    def pair(self, example: Example) -> tuple[list[int], list[int]]:
        """Return source and target ids; the target is not truncated."""
        return encode_example(self.tokenizer, example, max_source=self.max_source, max_target=None, layout=self.layout)

    def alignment(self, example: Example) -> dict[int, int]:
        """Return the gold alignment; empty if the corpus has none."""
        if not example.response.copies:
            return {}
        return alignment(self.tokenizer, example, max_source=self.max_source, layout=self.layout)

    def with_roles(self, examples: Sequence[Example], source: Tensor) -> Tensor | None:
        """Return the sources [B, S] with the roles that the layout has replaced; None if it keeps them."""
        if self.layout == ROLES:
            return None
        roles = torch.full_like(source, PAD)
        for row, example in enumerate(examples):
            ids, _ = encode_example(self.tokenizer, example, max_source=self.max_source + 2, max_target=None)
            inner = ids[1:-1] or [UNK]  # the other layouts lack the first role and the end token
            roles[row, : len(inner)] = torch.tensor(inner)
        return roles
