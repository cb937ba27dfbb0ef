"""Attention of a prepared recurrent decoder to its source.

Shapes: B rows, N sources, K = B / N rows of a source, S source tokens, M memory size, D hidden
    size, Q key width.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from dialog.models.attention import (
    AdditiveScorer,
    Attention,
    BilinearScorer,
    DotScorer,
    NoAttention,
    ScaledDotScorer,
)
from dialog.models.attention.attention import AttentionMemory, SourceReader, SummaryMemory
from dialog.models.inference.products import product
from dialog.models.inference.shared import SharedRows, additive_mask

BLOCK = 2**17
"""Numbers in a block of energies on a CPU: it stays in the cache of a core."""
DOTS = (DotScorer, ScaledDotScorer, BilinearScorer)
"""Scorers whose scores are products of the query itself with keys that are computed once for a
source.
"""


class PreparedReader(Protocol):
    """A reader in float32; the rows of a beam share their source."""

    def start(self, memory: AttentionMemory | SummaryMemory) -> SharedRows:
        """Return what is read at each step."""

    def __call__(self, query: Tensor, memory: SharedRows) -> tuple[Tensor, Tensor | None]:
        """Return contexts [B, M] for states [B, D], and the attention weights [N, K, S], if there
        are any.
        """


class PreparedSummary:
    """The source as one vector."""

    def start(self, memory: AttentionMemory | SummaryMemory) -> SharedRows:
        """Return the vector [N, M]."""
        assert isinstance(memory, SummaryMemory)
        return SharedRows((memory.vector.float(),))

    def __call__(self, query: Tensor, memory: SharedRows) -> tuple[Tensor, None]:
        """Return the vector of each row."""
        vector = memory.parts[0]
        return (vector if memory.copies == 1 else vector.repeat_interleave(memory.copies, 0)), None


class PreparedAttention:
    """Attention with a scorer of `DOTS`."""

    def start(self, memory: AttentionMemory | SummaryMemory) -> SharedRows:
        """Return keys [N, S, Q], values [N, S, M], and a mask [N, S] that is added to the
        scores.
        """
        assert isinstance(memory, AttentionMemory)
        values = memory.values.float().masked_fill(~memory.mask.unsqueeze(-1), 0.0)
        return SharedRows((memory.keys.float(), values, additive_mask(memory.mask, torch.float32)))

    def __call__(self, query: Tensor, memory: SharedRows) -> tuple[Tensor, Tensor]:
        """Return contexts and weights."""
        keys, values, mask = memory.parts
        weights = self.scores(query, keys, memory.copies).add_(mask.unsqueeze(1)).softmax(-1)
        return torch.bmm(weights, values).flatten(0, 1), weights

    def scores(self, query: Tensor, keys: Tensor, copies: int) -> Tensor:
        """Return scores [N, K, S] of states [B, D] and keys [N, S, Q]."""
        return torch.bmm(query.view(len(keys), copies, -1), keys.transpose(1, 2))


class PreparedAdditive(PreparedAttention):
    """Attention with `AdditiveScorer`; its query is in the precision of the weights or in int8.

    The energies have sigmoid(2 x) instead of tanh(x), as in `additive_energies.py`: where MKL has
    no fast functions for a processor, torch's tanh takes several times as long.
    """

    def __init__(self, scorer: AdditiveScorer, *, int8: bool) -> None:
        self.energy = 2 * scorer.energy.weight.detach().float().squeeze(0)  # [Q]
        self.query = product(2 * scorer.query.weight.detach(), int8=int8)

    def start(self, memory: AttentionMemory | SummaryMemory) -> SharedRows:
        """Return 2 U k [N, S, Q], values [N, S, M], and a mask [N, S] that is added to the
        energies.
        """
        source = super().start(memory)
        keys, values, mask = source.parts
        return SharedRows((2 * keys, values, mask))

    def scores(self, query: Tensor, keys: Tensor, copies: int) -> Tensor:
        """Return energies [N, K, S], up to a constant of each row, of states [B, D] and 2 U k
        [N, S, Q].
        """
        query = self.query(query).view(len(keys), copies, 1, -1)  # [N, K, 1, Q]
        energies = query.new_empty(len(keys), copies, keys.shape[1])  # [N, K, S]
        rows = (
            len(keys)
            if keys.device.type != "cpu"
            else max(1, BLOCK // max(1, keys[0].numel() * copies))
        )
        for start in range(0, len(keys), rows):
            block = slice(start, start + rows)
            mixed = (query[block] + keys[block].unsqueeze(1)).sigmoid_()  # [n, K, S, Q]
            torch.mv(mixed.view(-1, mixed.shape[-1]), self.energy, out=energies[block].view(-1))
        return energies


def prepared_reader(reader: SourceReader, *, int8: bool) -> PreparedReader:
    """Return the prepared form of a reader for which `supports_reader` is true."""
    if isinstance(reader, NoAttention):
        return PreparedSummary()
    scorer = reader.additive
    return PreparedAttention() if scorer is None else PreparedAdditive(scorer, int8=int8)


def supports_reader(reader: SourceReader) -> bool:
    """Return whether the formula of a reader is written here: no attention, or that of a content
    scorer.
    """
    return type(reader) is NoAttention or (
        type(reader) is Attention and type(reader.scorer) in (AdditiveScorer, *DOTS)
    )
