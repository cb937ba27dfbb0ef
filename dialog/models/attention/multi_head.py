"""Multi-head attention, as the Transformer has it.

Shapes: B rows, T queries, S source tokens, D width, H heads, G heads of keys and values. Masks are boolean,
True = real.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dialog.models.attention.softmax import masked_softmax
from dialog.models.contracts import AttentionHook, meant_for
from dialog.models.dropout import drop

BLOCK = 2**22
"""Attention weights that are held at a time, where they would fill memory."""


def attention_weights(query: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(q k' / sqrt(d)): what the fused kernel uses and does not return; Vaswani et al. 2017, 3.2.1.

    Query [B, H, T, D / H], keys [B, H, S, D / H], mask broadcastable to [B, H, T, S] -> weights [B, H, T, S].
    """
    scores = (query / math.sqrt(query.shape[-1])) @ keys.transpose(-2, -1)  # [B, H, T, S]
    return masked_softmax(scores, mask)


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """Mask [T, S] in which the last query sees all keys, and each one before it one fewer."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)  # [T, S]


def mix(weights: Tensor, values: Tensor, dropout: float) -> Tensor:
    """Weights [B, H, T, S], some of them dropped, and values [B, H, S, D / H] -> [B, H, T, D / H]."""
    return drop(weights, dropout).to(values.dtype) @ values


def blockwise(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """The same formula for some rows, or some queries of a row, at a time, computed again in the backward pass.

    So no more than two blocks' weights are ever held: what grows with T S is a mask alone (Rabe & Staats 2021, 3).
    """

    def block(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        return mix(attention_weights(query, keys, mask), values, dropout)

    size = max(1, BLOCK // (keys.shape[1] * keys.shape[2]))  # queries of a row
    count = max(1, size // query.shape[2])  # rows
    pieces = [torch.split(each, count) for each in (query, keys, values)]
    whole = None if mask is None else mask[(None,) * (4 - mask.dim())].expand(len(query), -1, -1, -1)
    masks = [None] * len(pieces[0]) if whole is None else torch.split(whole, count)
    rows = []
    for some, key, value, seen in zip(*pieces, masks, strict=True):
        queries = torch.split(some, size, 2)
        slices = [seen] * len(queries) if seen is None or seen.shape[2] == 1 else torch.split(seen, size, 2)
        parts = zip(queries, slices, strict=True)
        rows.append(torch.cat([checkpoint(block, q, key, value, m, use_reentrant=False) for q, m in parts], 2))
    return torch.cat(rows)


class MultiHeadAttention(nn.Module):
    """Several scaled dot-product attentions side by side; Vaswani et al. 2017, 3.2.2.

    ``output([head_1; ...; head_H])``, ``head_i = softmax(q_i k_i' / sqrt(D / H)) v_i``. With copied weights it agrees
    with ``torch.nn.MultiheadAttention``. Dropout falls on the weights; a hook is shown them before it.

    With G ``key_value_heads``, each H / G heads of the query in a row share one head of keys and values: grouped-query
    attention, Ainslie et al. 2023, 2.2; with one of them multi-query attention, Shazeer 2019.
    """

    def __init__(
        self, size: int, heads: int, *, dropout: float = 0.0, bias: bool = True, key_value_heads: int | None = None
    ) -> None:
        super().__init__()
        if heads < 1 or size % heads:
            raise ValueError(f"size {size} is no multiple of {heads} heads")
        groups = heads if key_value_heads is None else key_value_heads
        if groups < 1 or heads % groups:
            raise ValueError(f"heads {heads} is no multiple of {groups} key_value_heads")
        self.heads = heads
        self.width = size // heads
        self.dropout = dropout
        self.query = nn.Linear(size, size, bias=bias)
        self.key = nn.Linear(size, groups * self.width, bias=bias)
        self.value = nn.Linear(size, groups * self.width, bias=bias)
        self.output = nn.Linear(size, size, bias=bias)
        for layer in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(layer.weight)
            if bias:
                nn.init.zeros_(layer.bias)

    def keys_values(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """States [B, S, D] -> keys and values, each [B, G, S, D / H], G = H unless grouped: once for each source."""
        return self._split(self.key(states)), self._split(self.value(states))

    def forward(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        hook: AttentionHook | None = None,
        *,
        turn: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """Queries [B, T, D] -> [B, T, D]; mask broadcastable to [B, H, T, S]; causal: the last query sees all keys.

        ``turn`` changes the heads of the query [B, H, T, D / H]: rotary positions, which the keys have already.
        """
        hook = meant_for(hook, self)
        heads = self._split(self.query(query))  # [B, H, T, D / H]
        if turn is not None:
            heads = turn(heads)
        dropout = self.dropout if self.training else 0.0
        blocks = hook is None and dropout > 0 and _would_fill_memory(heads, keys)
        fused = hook is None and not blocks and not _formula_is_faster(heads)
        if keys.shape[1] != self.heads and not (fused and _kernel_knows_groups(keys)):
            keys, values = (each.repeat_interleave(self.heads // keys.shape[1], 1) for each in (keys, values))
        if causal and not (fused and mask is None and heads.shape[2] == keys.shape[2]):
            slant = causal_mask(heads.shape[2], keys.shape[2], keys.device)
            mask, causal = (slant if mask is None else mask & slant), False
        if fused:
            mixed = F.scaled_dot_product_attention(
                heads,
                keys,
                values,
                attn_mask=mask,
                dropout_p=dropout,
                is_causal=causal,
                enable_gqa=keys.shape[1] != self.heads,
            )
        elif blocks:
            mixed = blockwise(heads, keys, values, mask, dropout)
        else:
            weights = attention_weights(heads, keys, mask)  # [B, H, T, S]
            if hook is not None:
                hook(self, weights)
            mixed = mix(weights, values, dropout)  # [B, H, T, D / H]
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2))  # [B, T, D]
        return output

    def _split(self, states: Tensor) -> Tensor:
        return torch.unflatten(states, -1, (-1, self.width)).transpose(1, 2)  # [B, H, S, D / H]


def _formula_is_faster(query: Tensor) -> bool:
    """On a CPU in bfloat16 the fused kernel's backward is slower than the formula for short sequences."""
    return query.device.type == "cpu" and query.dtype is torch.bfloat16


def _would_fill_memory(query: Tensor, keys: Tensor) -> bool:
    """On a CPU no kernel drops weights without holding all of them, several times.

    S-Transformer with 4 sources of 2,048 (benchmarks/steps.py, one thread): 8.9 instead of 13.2 s a step, and a peak
    of 1,863 instead of 7,907 MiB.
    """
    batch, heads, length, _ = query.shape
    return query.device.type == "cpu" and batch * heads * length * keys.shape[2] > 2 * BLOCK


def _kernel_knows_groups(keys: Tensor) -> bool:
    """On a CPU every fused kernel takes grouped heads; on CUDA those that take a mask or float32 do not."""
    return keys.device.type == "cpu"
