"""One layer of the encoder and one of the decoder.

Shapes: B rows, S source tokens, T target tokens, T' target tokens so far, D width, H heads, G heads
    of keys and values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from dialog.models.attention.multi_head import mixed_step, mixed_values
from dialog.models.contracts import AttentionHook, meant_for
from dialog.models.kernels.autocast import lowered
from dialog.models.kernels.products import HalfProduct, joined, product
from dialog.models.positions import Turn
from dialog.models.transformer.cache import Extension, KeysValues
from dialog.models.transformer.real_tokens import RealTokens
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
        x = lowered(self.self_residual.normed(states))
        keys, values = self.self_attention.keys_values(x)  # [B, G, S, D / H]
        attended = self.self_attention(
            x, turn(keys), values, mask, hook=hook, turn=turn, right_padded=True
        )
        states = self.self_residual.added(states, attended)
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
        x = lowered(self.self_residual.normed(states))
        keys, values = self.self_attention.keys_values(x)  # [B, G, T, D / H]
        written = extension.write(past[0], turn(keys)), extension.write(past[1], values)
        so_far = map(extension.filled, written)  # [B, G, T', D / H]
        attended = self.self_attention(
            x, *so_far, extension.mask, causal=True, hook=hook, turn=turn
        )
        states = self.self_residual.added(states, attended)

        x = self.cross_residual.normed(states)
        attended = self.cross_attention(x, *source, mask, hook=hook)
        states = self.cross_residual.added(states, attended)

        states = self.feed_residual(states, self.feed_forward)
        return states, written  # [B, T, D]


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


class PreparedEncoderLayer:
    """`EncoderLayer` for the rows of all sources [R, D], in float32."""

    def __init__(self, layer: Any, int8: bool) -> None:
        own = layer.self_attention
        self.heads = own.heads
        self.groups = own.key.out_features // own.width
        self.width = own.width
        self.own = joined([own.query, own.key, own.value], int8)
        self.output = product(own.output.weight, own.output.bias, int8=int8)
        self.feed = layer.feed_forward.prepared(int8=int8)
        self.around_attention = layer.self_residual.prepared(torch.float32)
        self.around_feed = layer.feed_residual.prepared(torch.float32)

    def __call__(self, rows: Tensor, real: RealTokens, mask: Tensor, turn: Turn) -> Tensor:
        """Map rows [R, D] to [R, D]; mask [B, 1, 1, S]."""

        def attend_to_source(x: Tensor) -> Tensor:
            # [R, (H + 2 G) W]
            projected = self.own.half(x) if isinstance(self.own, HalfProduct) else self.own(x)
            # [B, H + 2 G, S, W]
            heads = torch.unflatten(real.padded(projected), 2, (-1, self.width)).transpose(1, 2)
            query, keys, values = heads.split_with_sizes([self.heads, self.groups, self.groups], 1)
            mixed = mixed_values(turn(query), turn(keys), values, mask)
            return self.output(real.rows(mixed.transpose(1, 2).flatten(2)))

        rows = self.around_attention(rows, attend_to_source)
        fed: Tensor = self.around_feed(rows, self.feed)
        return fed  # [R, D]


class PreparedDecoderLayer:
    """`DecoderLayer` for one token of each row [B, D], of a type."""

    def __init__(self, layer: Any, dtype: torch.dtype, int8: bool) -> None:
        own = layer.self_attention
        source = layer.cross_attention
        self.attentions = (own, source)
        self.heads = own.heads
        self.groups = own.key.out_features // own.width
        self.width = own.width
        self.own = joined([own.query, own.key, own.value], int8)
        self.source = joined([source.key, source.value], int8)
        self.own_output, self.query, self.source_output = (
            joined([part], int8) for part in (own.output, source.query, source.output)
        )
        self.feed = layer.feed_forward.prepared(int8=int8)
        residuals = (layer.self_residual, layer.cross_residual, layer.feed_residual)
        self.residuals = [part.prepared(dtype) for part in residuals]

    def source_keys_values(self, rows: Tensor, real: RealTokens, dtype: torch.dtype) -> KeysValues:
        """Project source states [R, D] to the keys and values [N, G, S, W] of the
        cross-attention.
        """
        # [N, S, 2, G, W]
        both = torch.unflatten(real.padded(self.source(rows).to(dtype)), 2, (2, -1, self.width))
        keys, values = both.permute(2, 0, 3, 1, 4).contiguous()
        return keys, values

    def __call__(
        self,
        states: Tensor,
        past: KeysValues,
        source: KeysValues,
        extension: Extension,
        masks: tuple[Tensor | None, Tensor],
        turn: Turn,
        hook: AttentionHook | None,
    ) -> tuple[Tensor, KeysValues]:
        """Map states [B, D] to [B, D]; also return the buffers with the new key and value.

        The ``masks`` are added to the scores of the target [B, 1, 1, T'] and the source.
        """
        written = past
        around_own, around_source, around_feed = self.residuals

        def attend_to_target(x: Tensor) -> Tensor:
            nonlocal written
            heads = self.own(x).view(len(x), -1, 1, self.width)  # [B, H + 2 G, 1, W]
            query, key, value = heads.split_with_sizes([self.heads, self.groups, self.groups], 1)
            low = past[0].dtype
            written = (
                extension.write(past[0], turn(key).to(low)),
                extension.write(past[1], value.to(low)),
            )
            keys, values = map(extension.filled, written)  # [B, G, T', W]
            mixed = mixed_step(
                turn(query),
                keys,
                values,
                masks[0],
                meant_for(hook, self.attentions[0]),
                self.attentions[0],
            )
            return self.own_output(mixed.reshape(x.shape))

        def attend_to_source(x: Tensor) -> Tensor:
            # [N, H, K, W]
            query = self.query(x).view(len(source[0]), -1, self.heads, self.width).transpose(1, 2)
            mixed = mixed_step(
                query, *source, masks[1], meant_for(hook, self.attentions[1]), self.attentions[1]
            )
            return self.source_output(mixed.transpose(1, 2).reshape(x.shape))

        states = around_own(states, attend_to_target)
        states = around_source(states, attend_to_source)
        return around_feed(states, self.feed), written
