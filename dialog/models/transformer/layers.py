"""One layer of the encoder, one of the decoder, and a stack of them.

Shapes: B rows, S source tokens, T target tokens, T' of them said so far, D width, H heads, G heads of keys and values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dialog.models.contracts import AttentionHook, meant_for
from dialog.models.transformer.settings import LayerSettings

KeysValues = tuple[Tensor, Tensor]
Turn = Callable[[Tensor], Tensor]
"""What positions do to heads [B, H, T, D / H] of queries and keys."""


class EncoderLayer(nn.Module):
    """Self-attention over the source, then the feed-forward network."""

    def __init__(self, settings: LayerSettings) -> None:
        super().__init__()
        self.self_attention = settings.attention()
        self.feed_forward = settings.feed_forward()
        self.self_residual, self.feed_residual = (settings.residual() for _ in range(2))

    def forward(self, states: Tensor, mask: Tensor, turn: Turn, *, hook: AttentionHook | None = None) -> Tensor:
        """States [B, S, D], mask [B, 1, 1, S] -> [B, S, D]."""

        def attend(x: Tensor) -> Tensor:
            keys, values = self.self_attention.keys_values(x)  # [B, G, S, D / H]
            attended: Tensor = self.self_attention(x, turn(keys), values, mask, hook=hook, turn=turn)
            return attended  # [B, S, D]

        states = self.self_residual(states, attend)
        states = self.feed_residual(states, self.feed_forward)
        return states  # [B, S, D]


class DecoderLayer(nn.Module):
    """Self-attention over what was said, cross-attention to the source, then the feed-forward network."""

    def __init__(self, settings: LayerSettings) -> None:
        super().__init__()
        self.self_attention = settings.attention()
        self.cross_attention = settings.attention()
        self.feed_forward = settings.feed_forward()
        self.self_residual, self.cross_residual, self.feed_residual = (settings.residual() for _ in range(3))

    def read(self, states: Tensor) -> KeysValues:
        """The keys and values [B, G, S, D / H] that this layer attends to, of the source's states [B, S, D]."""
        return self.cross_attention.keys_values(states)

    def forward(
        self,
        states: Tensor,
        past: KeysValues,
        source: KeysValues,
        *,
        mask: Tensor,
        turn: Turn,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """States [B, T, D] -> [B, T, D], and the keys (turned) and values of all that was said [B, G, T', D / H]."""
        said = past

        def remember(x: Tensor) -> Tensor:
            nonlocal said
            keys, values = self.self_attention.keys_values(x)  # [B, G, T, D / H]
            said = torch.cat([past[0], turn(keys)], 2), torch.cat([past[1], values], 2)  # [B, G, T', D / H]
            attended: Tensor = self.self_attention(x, *said, causal=True, hook=hook, turn=turn)
            return attended  # [B, T, D]

        def consult(x: Tensor) -> Tensor:
            attended: Tensor = self.cross_attention(x, *source, mask, hook=hook)
            return attended  # [B, T, D]

        states = self.self_residual(states, remember)
        states = self.cross_residual(states, consult)
        states = self.feed_residual(states, self.feed_forward)
        return states, said  # [B, T, D]


def stack(layer: Callable[[LayerSettings], nn.Module], layers: int, settings: LayerSettings) -> nn.ModuleList:
    """Layers of one kind above each other.

    Raises:
        ValueError: there is none.
    """
    if layers < 1:
        raise ValueError(f"layers must be at least 1, not {layers}")
    return nn.ModuleList(layer(settings) for _ in range(layers))


def saving(layer: nn.Module, *, hook: AttentionHook | None) -> Callable[..., Any]:
    """The layer, which in training keeps only what it reads; the rest is computed again in the backward pass.

    So memory grows by one tensor [B, T, D] a layer, for a third more work (activation checkpointing; Chen et al. 2016,
    4): 858 instead of 1,810 MiB and 1.6 times the time in benchmarks/activation_checkpointing.py. Dropout falls in the
    same places both times. A layer whose attention a hook looks at is left as it is: it would show it twice.
    """
    watched = any(meant_for(hook, module) is not None for module in layer.modules())
    if watched or not layer.training:
        return layer
    return partial(checkpoint, layer, use_reentrant=False, preserve_rng_state=True)
