"""Transformer encoder prepared for generation on a CPU: padding is neither projected nor
normalised.

Formula: `TransformerEncoder.forward`. The tokens of all sources are the rows of each product; only
attention reads them padded. Queries, keys and values are one product.

Shapes: B sources, S source tokens, R rows of real tokens, D width, H heads, G heads of keys and
values, W = D / H.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from dialog.models.attention import MultiHeadAttention
from dialog.models.attention.multi_head import mixed_values
from dialog.models.contracts import AttentionHook, Encoded, Encoder
from dialog.models.inference.products import HalfProduct, product
from dialog.models.inference.shared import RealTokens
from dialog.models.inference.sublayers import (
    joined,
    prepared_feed_forward,
    prepared_norm,
    prepared_residual,
)
from dialog.models.positions import Turn
from dialog.models.transformer.encoder import TransformerEncoder
from dialog.models.transformer.layers import EncoderLayer


class PreparedTransformerEncoder(Encoder):
    """Encoder layers in float32; products in the precision of the weights or in int8."""

    own_dropout = True

    def __init__(self, encoder: TransformerEncoder, *, int8: bool) -> None:
        super().__init__()
        self.size = encoder.size
        self.original = encoder
        self.layers = [_PreparedEncoderLayer(layer, int8) for layer in encoder.layers]
        self.norm = prepared_norm(encoder.norm)

    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Encode inputs [B, S, D], mask [B, S] into states [B, S, D] of the inputs' precision.

        With a hook, which sees the weights of padding too, the original encoder runs.
        """
        if hook is not None:
            encoded: Encoded = self.original(inputs, mask, hook)
            return encoded
        real = RealTokens(mask)
        positions = self.original.positions
        rows = real.rows(positions(inputs).float())
        turn = positions.turn_at(inputs)
        for layer in self.layers:
            rows = layer(rows, real, mask[:, None, None], turn)
        states = real.padded(self.norm(rows)).masked_fill(~mask.unsqueeze(-1), 0.0)
        summary = states.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)  # [B, D]
        return Encoded(states.to(inputs.dtype), mask, summary.to(inputs.dtype))


class _PreparedEncoderLayer:
    def __init__(self, layer: Any, int8: bool) -> None:
        own = layer.self_attention
        self.heads = own.heads
        self.groups = own.key.out_features // own.width
        self.width = own.width
        self.own = joined([own.query, own.key, own.value], int8)
        self.output = product(own.output.weight, own.output.bias, int8=int8)
        self.feed = prepared_feed_forward(layer.feed_forward, int8)
        self.around_attention, self.around_feed = map(
            prepared_residual, (layer.self_residual, layer.feed_residual)
        )

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

        return self.around_feed(self.around_attention(rows, attend_to_source), self.feed)


def supports_transformer_encoder(encoder: nn.Module) -> TypeGuard[TransformerEncoder]:
    """Return whether all parts of an encoder are those whose formula is written here."""
    return type(encoder) is TransformerEncoder and all(
        type(layer) is EncoderLayer and type(layer.self_attention) is MultiHeadAttention
        for layer in encoder.layers
    )
