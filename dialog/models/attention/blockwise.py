"""Attention in blocks of queries, so that a long source never needs all of its weights at once.

Formula: ``attend`` of `multi_head.py`, for one block of queries after the other, each
computed again in the backward pass (Rabe & Staats 2021, 3). At most two blocks of weights exist at
a time; only the mask grows with T S.

Gain: a training step of configs/model/transformer takes 0.49 of the memory (1,409 instead of 2,894
MiB) and 1.00 to 1.13 of the time on 8 rows of 1,024 source tokens (benchmarks/kernels.py; Intel
Xeon with AVX-512, one thread, torch 2.13). A batch with fewer weights than two blocks uses the
fused kernel.

Test: ``test_blocks_of_queries_are_the_formula`` in
    tests/models/attention/test_blockwise.py.

Shapes: B rows, T queries, S source tokens, D width, H heads.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

BLOCK = 2**22
"""Attention weights in one block."""


def would_fill_memory(query: Tensor, keys: Tensor) -> bool:
    """Return whether the weights [B, H, T, S] exceed two blocks on a CPU, where no fused kernel
    supports dropout.
    """
    batch, heads, length, _ = query.shape
    return query.device.type == "cpu" and batch * heads * length * keys.shape[2] > 2 * BLOCK


def blockwise(
    attend: Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor],
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
) -> Tensor:
    """Apply ``attend(query, keys, values, mask)`` to several rows at a time, or to several queries
    of one row.

    Query, keys and values [B, H, T or S, D / H], mask broadcastable to [B, H, T, S] ->
    [B, H, T, D / H].
    """
    queries = max(1, BLOCK // (keys.shape[1] * keys.shape[2]))  # of one row
    rows = max(1, queries // query.shape[2])
    row_blocks = [torch.split(heads, rows) for heads in (query, keys, values)]
    full_mask = (
        None if mask is None else mask[(None,) * (4 - mask.dim())].expand(len(query), -1, -1, -1)
    )
    row_masks = [None] * len(row_blocks[0]) if full_mask is None else torch.split(full_mask, rows)
    mixed = []
    for row_query, key, value, row_mask in zip(*row_blocks, row_masks, strict=True):
        blocks = torch.split(row_query, queries, 2)
        shared = row_mask is None or row_mask.shape[2] == 1
        masks = [row_mask] * len(blocks) if shared else torch.split(row_mask, queries, 2)
        pairs = zip(blocks, masks, strict=True)
        mixed.append(
            torch.cat(
                [checkpoint(attend, q, key, value, m, use_reentrant=False) for q, m in pairs], 2
            )
        )
    return torch.cat(mixed)
