"""One layer of the encoder and one of the decoder.

Shapes: B rows, S source tokens, T target tokens, T' target tokens so far, D width, H heads, G heads
    of keys and values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dialog.models.attention import MultiHeadAttention
from dialog.models.contracts import AttentionHook, meant_for
from dialog.models.positions import Turn
from dialog.models.transformer.cache import Extension, KeysValues
from dialog.models.transformer.transformer_settings import TransformerSettings


class EncoderLayer(nn.Module):
    """Self-attention over the source, then the feed-forward network."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.self_attention = settings.attention()
        self.feed_forward = settings.feed_forward()
        self.self_residual, self.feed_residual = (settings.residual() for _ in range(2))

    def forward(
        self, states: Tensor, mask: Tensor, turn: Turn, *, hook: AttentionHook | None = None
    ) -> Tensor:
        """Map states [B, S, D] to [B, S, D]; mask [B, 1, 1, S]."""

        def attend(x: Tensor) -> Tensor:
            keys, values = self.self_attention.keys_values(x)  # [B, G, S, D / H]
            attended: Tensor = self.self_attention(
                x, turn(keys), values, mask, hook=hook, turn=turn
            )
            return attended  # [B, S, D]

        states = self.self_residual(states, attend)
        states = self.feed_residual(states, self.feed_forward)
        return states  # [B, S, D]


class DecoderLayer(nn.Module):
    """Causal self-attention over the target, cross-attention to the source, then the feed-forward
    network.
    """

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.self_attention = settings.attention()
        self.cross_attention = settings.attention()
        self.feed_forward = settings.feed_forward()
        self.self_residual, self.cross_residual, self.feed_residual = (
            settings.residual() for _ in range(3)
        )

    def source_keys_values(self, states: Tensor) -> KeysValues:
        """Project source states [B, S, D] to the keys and values [B, G, S, D / H] of the
        cross-attention.
        """
        return self.cross_attention.keys_values(states)

    def forward(
        self,
        states: Tensor,
        past: KeysValues,
        source: KeysValues,
        extension: Extension,
        *,
        mask: Tensor,
        turn: Turn,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """Map states [B, T, D] to [B, T, D]; also return the buffers of the target's keys (turned)
        and values.

        ``extension`` places the T tokens behind those of the buffers ``past``.
        """
        written = past

        def attend_to_target(x: Tensor) -> Tensor:
            nonlocal written
            written = write_keys_values(self.self_attention, x, past, extension, turn)
            so_far = map(extension.filled, written)  # [B, G, T', D / H]
            attended: Tensor = self.self_attention(x, *so_far, causal=True, hook=hook, turn=turn)
            return attended  # [B, T, D]

        def attend_to_source(x: Tensor) -> Tensor:
            attended: Tensor = self.cross_attention(x, *source, mask, hook=hook)
            return attended  # [B, T, D]

        states = self.self_residual(states, attend_to_target)
        states = self.cross_residual(states, attend_to_source)
        states = self.feed_residual(states, self.feed_forward)
        return states, written  # [B, T, D]


def write_keys_values(
    attention: MultiHeadAttention,
    states: Tensor,
    past: KeysValues,
    extension: Extension,
    turn: Turn,
) -> KeysValues:
    """Write keys (turned) and values of states [B, T, D] behind those of the buffers ``past``."""
    keys, values = attention.keys_values(states)  # [B, G, T, D / H]
    return extension.write(past[0], turn(keys)), extension.write(past[1], values)


def checkpointed(layer: nn.Module, *, hook: AttentionHook | None) -> Callable[..., Any]:
    """Wrap a layer so that training keeps only its inputs and the backward pass computes the rest
    again.

    Memory grows by one tensor [B, T, D] per layer, for a third more work (activation checkpointing;
    Chen et al. 2016, 4): 858 instead of 1,810 MiB and 1.6 times the time in benchmarks/README.md,
    "Activation checkpointing". Both passes use the same dropout masks. A layer whose attention a
    hook watches is not wrapped: the hook would be called twice.
    """
    watched = any(meant_for(hook, module) is not None for module in layer.modules())
    if watched or not layer.training:
        return layer
    return partial(checkpoint, layer, use_reentrant=False, preserve_rng_state=True)
