"""Multi-head attention of the Transformer.

Shapes: B rows, T queries, S source tokens, D width, H heads, G heads of keys and values. Masks are
boolean, True = real.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.attention.blockwise import blockwise, would_fill_memory
from dialog.models.attention.heads import HeadSlices
from dialog.models.attention.right_padding import attend_to_real, is_long
from dialog.models.attention.softmax import masked_softmax
from dialog.models.contracts import AttentionHook, meant_for
from dialog.models.kernels.linear import Linear

MANY = 64
"""Heads of keys in a batch from which, on a CPU, batched products are faster than torch's fused
attention.

With bfloat16 products in hardware they read the source's keys and values in bfloat16, if the
weights are in bfloat16 or int8: half the memory, and for the rows of a beam a fourth of the time.
"""


def attention_weights(query: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """softmax(q k' / sqrt(d)), which the fused kernel uses and does not return; Vaswani
    et al. 2017, 3.2.1.

    Query [B, H, T, D / H], keys [B, H, S, D / H], mask broadcastable to [B, H, T, S] -> weights
    [B, H, T, S].
    """
    return masked_softmax(_scores(query, keys), mask)


def causal_mask(queries: int, keys: int, device: torch.device) -> Tensor:
    """Mask [T, S] in which the last query sees all keys, and each earlier query one key fewer than
    the next.
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)  # [T, S]


def mix(weights: Tensor, values: Tensor, dropout: float) -> Tensor:
    """Average values [B, H, S, D / H] by weights [B, H, T, S], after dropout of the weights."""
    return F.dropout(weights, dropout).to(values.dtype) @ values  # [B, H, T, D / H]


def attend(
    query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, dropout: float
) -> Tensor:
    """Return `mix` of `attention_weights`, faster on a CPU, where it must run.

    Adding a constant mask needs no backward pass. Softmax computes in float32 or better; unless
    weights are dropped, it rounds them to the precision of the values itself. In bfloat16 that
    takes half the time of the formula.
    """
    scores = _scores(query, keys)
    if mask is not None:
        scores += torch.zeros(mask.shape, dtype=scores.dtype).masked_fill_(
            ~mask, torch.finfo(scores.dtype).min
        )
    # 1 / 0.9 rounded to bfloat16 is 0.2 % too small
    exact = torch.promote_types(scores.dtype, torch.float32)
    weights = scores.softmax(-1, dtype=exact if dropout else values.dtype)  # [B, H, T, S]
    mixed = mix(weights, values, dropout)
    # [B, H, T, D / H]
    return mixed if mask is None else mixed.masked_fill(~mask.any(-1, keepdim=True), 0.0)


def mixed_values(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
    """Attend with queries [B, H, T, D / H] to keys and values [B, G, S, D / H] on a CPU, by the
    faster way.

    Mask broadcastable to [B, H, T, S] -> [B, H, T, D / H].
    """
    groups = query.shape[1] // keys.shape[1]
    if not _formula_is_faster(query):
        return F.scaled_dot_product_attention(
            query, keys, values, attn_mask=mask, enable_gqa=groups > 1
        )
    keys, values = (states.repeat_interleave(groups, 1) for states in (keys, values))
    return attend(query, keys, values, mask, 0.0)


def _scores(query: Tensor, keys: Tensor) -> Tensor:
    return (query / math.sqrt(query.shape[-1])) @ keys.transpose(-2, -1)  # [B, H, T, S]


class MultiHeadAttention(nn.Module):
    """Several scaled dot-product attentions side by side; Vaswani et al. 2017, 3.2.2.

    ``output([head_1; ...; head_H])``, ``head_i = softmax(q_i k_i' / sqrt(D / H)) v_i``. With copied
    weights it agrees with ``torch.nn.MultiheadAttention``. Dropout is applied to the weights; a
    hook gets them before dropout.

    With G ``key_value_heads``, groups of H / G consecutive query heads share one head of keys and
    values: grouped-query attention, Ainslie et al. 2023, 2.2; for G = 1 multi-query attention,
    Shazeer 2019.
    """

    def __init__(
        self,
        size: int,
        heads: int,
        *,
        dropout: float = 0.0,
        bias: bool = True,
        key_value_heads: int | None = None,
    ) -> None:
        super().__init__()
        if heads < 1 or size % heads:
            raise ValueError(f"size {size} is not a multiple of {heads} heads")
        groups = heads if key_value_heads is None else key_value_heads
        if groups < 1 or heads % groups:
            raise ValueError(f"heads {heads} is not a multiple of {groups} key_value_heads")
        self.heads = heads
        self.width = size // heads
        self.dropout = dropout
        self.query = Linear(size, size, bias=bias)
        self.key = Linear(size, groups * self.width, bias=bias)
        self.value = Linear(size, groups * self.width, bias=bias)
        self.output = Linear(size, size, bias=bias)
        for layer in (self.query, self.key, self.value, self.output):
            nn.init.xavier_uniform_(layer.weight)
            if bias:
                nn.init.zeros_(layer.bias)

    @property
    def head_slices(self) -> HeadSlices:
        """The output layer, whose inputs are the outputs of all heads."""
        return HeadSlices(self.output, self.heads, inputs=True)

    def keys_values(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Project states [B, S, D] to keys and values, each [B, G, S, D / H], G = H unless grouped;
        once per source.
        """
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
        right_padded: bool = False,
    ) -> Tensor:
        """Map queries [B, T, D] to [B, T, D]; mask broadcastable to [B, H, T, S]; causal: the last
        query sees all keys.

        ``turn`` applies rotary positions to the query heads [B, H, T, D / H]; the keys must be
        turned already. ``right_padded``: the mask is that of padding on the right of the queries,
        whose own tokens are the keys; outputs at padding may be anything.
        """
        hook = meant_for(hook, self)
        heads = self._split(self.query(query))  # [B, H, T, D / H]
        if turn is not None:
            heads = turn(heads)
        dropout = self.dropout if self.training else 0.0
        causal = causal and heads.shape[2] > 1  # a single query sees all keys
        blocks = hook is None and dropout > 0 and would_fill_memory(heads, keys)
        fused = hook is None and not blocks and not _formula_is_faster(heads)
        without_mask = right_padded and mask is not None and hook is None and is_long(heads)
        supports_groups = fused and not without_mask and _kernel_supports_groups(keys)
        if keys.shape[1] != self.heads and not supports_groups:
            keys, values = (
                states.repeat_interleave(self.heads // keys.shape[1], 1)
                for states in (keys, values)
            )
        if causal and not (fused and mask is None and heads.shape[2] == keys.shape[2]):
            earlier = causal_mask(heads.shape[2], keys.shape[2], keys.device)
            mask = earlier if mask is None else mask & earlier
            causal = False
        if without_mask:
            assert mask is not None
            mixed = attend_to_real(heads, keys, values, mask, dropout)
        elif fused:
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
            mixed = blockwise(partial(attend, dropout=dropout), heads, keys, values, mask)
        elif hook is None:
            mixed = attend(heads, keys, values, mask, dropout)
        else:
            weights = attention_weights(heads, keys, mask)  # [B, H, T, S]
            hook(self, weights)
            mixed = mix(weights, values, dropout)  # [B, H, T, D / H]
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2))  # [B, T, D]
        return output

    def _split(self, states: Tensor) -> Tensor:
        return torch.unflatten(states, -1, (-1, self.width)).transpose(1, 2)  # [B, H, S, D / H]


def _formula_is_faster(query: Tensor) -> bool:
    """On a CPU in bfloat16 the fused kernel takes 1.4 to 4 times as long as `attend` for 32 to 800
    tokens.
    """
    return query.device.type == "cpu" and query.dtype is torch.bfloat16


def _kernel_supports_groups(keys: Tensor) -> bool:
    """On a CPU every fused kernel supports grouped heads; on CUDA those with a mask or float32 do
    not.
    """
    return keys.device.type == "cpu"


def mixed_step(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    hook: AttentionHook | None,
    attention: MultiHeadAttention,
) -> Tensor:
    """Attend with queries [N, H, K, W] in the precision of the keys [N, G, S, W]; return that of
    the queries [N, H, K, W].
    """
    groups = query.shape[1] // keys.shape[1]
    is_cpu = keys.device.type == "cpu"
    batched = is_cpu and (keys.shape[0] * keys.shape[1] >= MANY or keys.dtype is torch.bfloat16)
    if batched or hook is not None:
        weights = _step_weights(query, keys if batched else keys.float(), mask)
        if hook is not None:
            # [B, H, 1, S]
            hook(attention, weights.float().transpose(1, 2).flatten(0, 1).unsqueeze(2))
        if batched:
            # [N G, K H / G, S]
            rows = weights.view(keys.shape[0] * keys.shape[1], -1, keys.shape[2])
            return torch.bmm(rows, values.flatten(0, 1)).view_as(query).to(query.dtype)
    low = query.to(keys.dtype)
    return F.scaled_dot_product_attention(
        low, keys, values, attn_mask=mask, enable_gqa=groups > 1
    ).to(query.dtype)


def _step_weights(query: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """Return attention weights [N, H, K, S] of queries [N, H, K, W] and keys [N, G, S, W], in the
    keys' precision.
    """
    scaled = (query / query.shape[3] ** 0.5).to(keys.dtype)
    rows = scaled.reshape(keys.shape[0] * keys.shape[1], -1, keys.shape[3])
    scores = torch.bmm(rows, keys.flatten(0, 1).transpose(1, 2)).view(*query.shape[:3], -1)
    return (scores if mask is None else scores.add_(mask)).softmax(-1)
