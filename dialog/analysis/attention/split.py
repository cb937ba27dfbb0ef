"""Statistics of attention over the examples of a split, from their text.

Shapes: B rows, S source tokens.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from dialog.analysis.attention.batch_maps import Examples
from dialog.analysis.attention.importance import (
    ablation_curve,
    head_importance,
    negative_log_likelihoods,
)
from dialog.analysis.attention.statistics import statistics
from dialog.analysis.attention.token_kinds import TokenKinds
from dialog.analysis.reservoir import Reservoir
from dialog.data.batching import collate
from dialog.data.dialogue import Example
from dialog.data.gold_alignment import alignment
from dialog.data.store.layout import ROLES, encode_example
from dialog.data.store.plan import pair_batches
from dialog.data.tokenizers.tokenizer import PAD, UNK, Tokenizer
from dialog.metrics.likelihood import BitsPerByte
from dialog.models.seq2seq import Seq2Seq

BLOCK = 4096
"""Number of examples that are sorted by length together; bounds the memory, whatever the size of
the split.
"""
SAMPLE = 64
"""Number of examples on which agreement with erasure and gradients is measured."""
ABLATION_SAMPLE = 512
"""Number of examples on which the importance of heads is measured, and of those on which heads are
removed.
"""


@dataclass(frozen=True)
class Encoding:
    """From text to batches, laid out as in training; references are not truncated.

    Args:
        tokenizer: Tokenizer of the model.
        max_source: Tokens to which a source is truncated.
        layout: Layout of a source.
        budget: Padded tokens of a batch.
    """

    tokenizer: Tokenizer
    max_source: int
    layout: str = ROLES
    budget: int = 8192

    def batches(self, examples: Sequence[Example]) -> Iterator[Examples]:
        """Yield all examples in batches of similar length."""
        pairs = [self.pair(example) for example in examples]
        for rows in pair_batches(pairs, self.budget):
            batch = collate(pairs[row] for row in rows)
            chosen = [examples[row] for row in rows]
            gold = [self.alignment(example) for example in chosen]
            yield Examples(batch.source, batch.target, self.with_roles(chosen, batch.source), gold)

    def pair(self, example: Example) -> tuple[list[int], list[int]]:
        """Return source and target ids; the target is not truncated."""
        return encode_example(
            self.tokenizer, example, max_source=self.max_source, max_target=None, layout=self.layout
        )

    def alignment(self, example: Example) -> dict[int, int]:
        """Return the gold alignment; empty if the corpus has none."""
        if not example.response.copies:
            return {}
        return alignment(self.tokenizer, example, max_source=self.max_source, layout=self.layout)

    def with_roles(self, examples: Sequence[Example], source: Tensor) -> Tensor | None:
        """Return the sources [B, S] with the roles that the layout has replaced; None if it keeps
        them.
        """
        if self.layout == ROLES:
            return None
        roles = torch.full_like(source, PAD)
        for row, example in enumerate(examples):
            ids, _ = encode_example(
                self.tokenizer, example, max_source=self.max_source + 2, max_target=None
            )
            inner = ids[1:-1] or [UNK]  # the other layouts lack the first role and the end token
            roles[row, : len(inner)] = torch.tensor(inner)
        return roles


def split_statistics(
    model: Seq2Seq, encoding: Encoding, examples: Iterable[Example], *, sample: int = SAMPLE
) -> dict[str, Any]:
    """Return the `statistics` of a stream of examples.

    Args:
        model: The model.
        encoding: As in its training.
        examples: Examples of a split.
        sample: Number of examples, drawn uniformly, for ``erasure`` and ``gradient``.
    """
    reservoir = Reservoir[Example](sample)
    stream = reservoir.watch(examples)
    blocks = iter(lambda: list(islice(stream, BLOCK)), [])
    sampled = (batch for example in reservoir.items for batch in encoding.batches([example]))
    kinds = TokenKinds.of(encoding.tokenizer)
    return statistics(
        model, batches_of(blocks, encoding), kinds, sample=sampled, budget=encoding.budget
    )


def batches_of(blocks: Iterable[Sequence[Example]], encoding: Encoding) -> Iterator[Examples]:
    """Yield the batches of each block; the memory that a block has freed goes back to the
    system.
    """
    for block in blocks:
        yield from encoding.batches(block)
        release_freed_memory()


def release_freed_memory() -> None:
    """Return freed memory, which `keep_freed_memory` keeps, to the system; without glibc nothing
    happens.

    Batches of many shapes leave gaps between blocks that are still in use, so the resident size of
    a long pass grows although the memory in use does not.
    """
    if sys.platform.startswith("linux") and hasattr(library := ctypes.CDLL(None), "malloc_trim"):
        library.malloc_trim(0)


def head_ablation(
    model: Seq2Seq, encoding: Encoding, ranking: Sequence[Example], examples: Sequence[Example]
) -> dict[str, Any]:
    """Return the importance of each head and the likelihood of a model as heads are removed, least
    important first.

    ``heads`` has a dict per head, the most important one first, and ``curve`` the bits per byte of
    the references by the number of removed heads. Both are empty for a model without multi-head
    attention.

    Args:
        model: The model; its weights are restored.
        encoding: As in its training.
        ranking: Examples on which the importance is measured, such as those of the validation
            split.
        examples: Examples on which the likelihood is measured.
    """
    heads = sorted(
        head_importance(model, encoding.batches(ranking)), key=lambda head: -head.normalised
    )
    batches = list(encoding.batches(examples))
    texts = [example.response.text for example in examples]
    size = sum(len(text.encode()) for text in texts)
    unknown = sum(
        encoding.tokenizer.unknown_bytes(text, encoding.tokenizer.encode(text)) for text in texts
    )

    @torch.inference_mode()
    def score() -> float:
        nll = sum(negative_log_likelihoods(model, batch).double().sum() for batch in batches)
        return float(BitsPerByte().value(float(nll), size, unknown))

    curve = ablation_curve(model, [head.name for head in reversed(heads)], score) if heads else []
    return {
        "ranking_examples": len(ranking),
        "examples": len(examples),
        "heads": [head._asdict() for head in heads],
        "curve": curve,
    }
