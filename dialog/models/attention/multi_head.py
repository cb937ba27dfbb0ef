"""Multi-head attention, as the Transformer has it.

Shapes: B rows, T queries, S source tokens, D width, H heads. Masks are boolean, True = real.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.attention.softmax import masked_softmax
from dialog.models.contracts import AttentionHook


def attention_weights(query: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(q k' / sqrt(d)): what the fused kernel uses and does not return; Vaswani et al. 2017, 3.2.1.

    Query [B, H, T, D / H], keys [B, H, S, D / H], mask broadcastable to [B, H, T, S] -> weights [B, H, T, S].
    """
    scores = query @ keys.transpose(-2, -1) / math.sqrt(query.shape[-1])  # [B, H, T, S]
    return masked_softmax(scores, mask)


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """Mask [T, S] in which the last query sees all keys, and each one before it one fewer."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)  # [T, S]


class MultiHeadAttention(nn.Module):
    """Several scaled dot-product attentions side by side; Vaswani et al. 2017, 3.2.2.

    ``output([head_1; ...; head_H])``, ``head_i = softmax(q_i k_i' / sqrt(D / H)) v_i``. With copied weights it agrees
    with ``torch.nn.MultiheadAttention``. Dropout falls on the weights; a hook is shown them before it.
    """

    def __init__(self, size: int, heads: int, *, dropout: float = 0.0, bias: bool = True) -> None:
        super().__init__()
        if heads < 1 or size % heads:
            raise ValueError(f"size {size} is no multiple of {heads} heads")
        self.heads = heads
        self.dropout = dropout
        self.query = nn.Linear(size, size, bias=bias)
        self.key = nn.Linear(size, size, bias=bias)
        self.value = nn.Linear(size, size, bias=bias)
        self.output = nn.Linear(size, size, bias=bias)
        for layer in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(layer.weight)
            if bias:
                nn.init.zeros_(layer.bias)

    def keys_values(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """States [B, S, D] -> keys and values, each [B, H, S, D / H]: once for each source."""
        return self._split(self.key(states)), self._split(self.value(states))

    def forward(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None = None,
        causal: bool = False,
        hook: AttentionHook | None = None,
    ) -> Tensor:
        """Queries [B, T, D] -> [B, T, D]; mask broadcastable to [B, H, T, S]; causal: the last query sees all keys."""
        heads = self._split(self.query(query))  # [B, H, T, D / H]
        dropout = self.dropout if self.training else 0.0
        fused = hook is None and not _formula_is_faster(heads)
        if causal and not (fused and mask is None and heads.shape[2] == keys.shape[2]):
            slant = causal_mask(heads.shape[2], keys.shape[2], keys.device)
            mask, causal = (slant if mask is None else mask & slant), False
        if fused:
            mixed = F.scaled_dot_product_attention(
                heads, keys, values, attn_mask=mask, dropout_p=dropout, is_causal=causal
            )
        else:
            weights = attention_weights(heads, keys, mask)  # [B, H, T, S]
            if hook is not None:
                hook(self, weights)
            mixed = F.dropout(weights, dropout).to(values.dtype) @ values  # [B, H, T, D / H]
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2))  # [B, T, D]
        return output

    def _split(self, states: Tensor) -> Tensor:
        return torch.unflatten(states, -1, (self.heads, -1)).transpose(1, 2)  # [B, H, S, D / H]


def _formula_is_faster(query: Tensor) -> bool:
    """On a CPU in bfloat16 the fused kernel's backward is slower than the formula for short sequences."""
    return query.device.type == "cpu" and query.dtype is torch.bfloat16
