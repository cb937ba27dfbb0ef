"""Transformer decoder prepared for generation.

Formula: `TransformerDecoder.forward`. The token's query, key and value are one product, positions
are computed once, and the rows of a beam share their source's keys and values.

Shapes: B rows, N sources, K = B / N rows of a source, S source tokens, T target tokens, D width, H
heads, G heads of keys and values, W = D / H.
"""

from __future__ import annotations

from typing import Any, TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.attention import MultiHeadAttention
from dialog.models.contracts import AttentionHook, Decoder, Encoded, meant_for
from dialog.models.inference.shared import RealTokens, SharedRows, additive_mask
from dialog.models.inference.sublayers import (
    joined,
    prepared_feed_forward,
    prepared_norm,
    prepared_residual,
)
from dialog.models.kernels.linear import has_fast_bfloat16
from dialog.models.positions import Turn
from dialog.models.transformer.cache import Extension, KeysValues, SelfAttentionState
from dialog.models.transformer.decoder import TransformerDecoder
from dialog.models.transformer.layers import DecoderLayer

MANY = 64
"""Heads of keys in a batch from which, on a CPU, batched products are faster than torch's fused
attention.

With bfloat16 products in hardware they read the source's keys and values in bfloat16, if the
weights are in bfloat16 or int8: half the memory, and for the rows of a beam a fourth of the time.
"""


class PreparedTransformerDecoder(Decoder):
    """Decoder layers in float32; products in the precision of the weights or in int8.

    Attention is in float32 on a CPU, where torch's fused kernel is slower in bfloat16 for one
    query, except for many heads of the source (`MANY`), and elsewhere in the precision of the
    weights.
    """

    pointer = None
    own_dropout = True

    def __init__(self, decoder: TransformerDecoder, *, int8: bool) -> None:
        super().__init__()
        self.original = decoder
        self.int8 = int8
        self.layers = [_PreparedDecoderLayer(layer, int8) for layer in decoder.layers]
        self.norm = prepared_norm(decoder.norm)
        self.positions: list[tuple[Tensor, Turn]] = []

    def start(self, encoded: Encoded) -> tuple[SharedRows, SelfAttentionState]:
        """Return the mask and the keys and values of each layer, and a state of no tokens."""
        states = self.original.bridge(encoded.states)  # [N, S, D]
        dtype = self._source_dtype(states)
        real = RealTokens(encoded.mask)
        rows = real.rows(states)  # [R, D]
        parts = [
            part for layer in self.layers for part in layer.source_keys_values(rows, real, dtype)
        ]
        like = parts[0][:, :, :0]
        state = SelfAttentionState.empty(
            len(self.layers), like=like.float() if like.device.type == "cpu" else like
        )
        return SharedRows((additive_mask(encoded.mask[:, None, None], dtype), *parts)), state

    def forward(
        self,
        inputs: Tensor,
        memory: SharedRows,
        state: SelfAttentionState,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, SelfAttentionState]:
        """Map inputs [B, T, D] to outputs [B, T, D]; the hook is called for each token."""
        outputs = []
        mask, *source = memory.parts
        for token in inputs.float().unbind(1):  # [B, D]
            shift, turn = self._position(token, state.length)
            states = token + shift
            extension = state.extended(1)
            buffers = []
            for depth, layer in enumerate(self.layers):
                keys_values = source[2 * depth], source[2 * depth + 1]
                states, written = layer(
                    states, state.layers[depth], keys_values, extension, mask, turn, hook
                )
                buffers.append(written)
            state = extension.state(tuple(buffers))
            outputs.append(self.norm(states))
        return torch.stack(outputs, 1), state

    def _source_dtype(self, states: Tensor) -> torch.dtype:
        """Return the precision of keys and values of source states [N, S, D]."""
        if states.device.type != "cpu":
            return states.dtype
        rounds = self.int8 or states.dtype is torch.bfloat16
        is_low = rounds and states.shape[0] * self.layers[0].groups >= MANY and has_fast_bfloat16()
        return torch.bfloat16 if is_low else torch.float32

    def _position(self, token: Tensor, place: int) -> tuple[Tensor, Turn]:
        """Return what is added to an input [D] at a position, and how its heads are turned;
        computed once.
        """
        while len(self.positions) <= place:
            zeros = token.new_zeros(1, 1, token.shape[1])
            positions = self.original.positions
            place_of = len(self.positions)
            self.positions.append(
                (positions(zeros, place_of).float().view(-1), positions.turn_at(zeros, place_of))
            )
        return self.positions[place]


class _PreparedDecoderLayer:
    def __init__(self, layer: Any, int8: bool) -> None:
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
        self.feed = prepared_feed_forward(layer.feed_forward, int8)
        residuals = (layer.self_residual, layer.cross_residual, layer.feed_residual)
        self.residuals = [prepared_residual(part) for part in residuals]

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
        mask: Tensor,
        turn: Turn,
        hook: AttentionHook | None,
    ) -> tuple[Tensor, KeysValues]:
        """Map states [B, D] to [B, D]; also return the buffers with the new key and value."""
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
            mixed = _mix(
                turn(query),
                keys,
                values,
                None,
                meant_for(hook, self.attentions[0]),
                self.attentions[0],
            )
            return self.own_output(mixed.reshape(x.shape))

        def attend_to_source(x: Tensor) -> Tensor:
            # [N, H, K, W]
            query = self.query(x).view(len(source[0]), -1, self.heads, self.width).transpose(1, 2)
            mixed = _mix(
                query, *source, mask, meant_for(hook, self.attentions[1]), self.attentions[1]
            )
            return self.source_output(mixed.transpose(1, 2).reshape(x.shape))

        states = around_own(states, attend_to_target)
        states = around_source(states, attend_to_source)
        return around_feed(states, self.feed), written


def _mix(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    hook: AttentionHook | None,
    attention: MultiHeadAttention,
) -> Tensor:
    """Attend with queries [N, H, K, W] in the precision of the keys [N, G, S, W]; return float32
    [N, H, K, W].
    """
    groups = query.shape[1] // keys.shape[1]
    is_cpu = keys.device.type == "cpu"
    batched = is_cpu and (keys.shape[0] * keys.shape[1] >= MANY or keys.dtype is torch.bfloat16)
    if batched or hook is not None:
        weights = _weights(query, keys if batched else keys.float(), mask)
        if hook is not None:
            # [B, H, 1, S]
            hook(attention, weights.float().transpose(1, 2).flatten(0, 1).unsqueeze(2))
        if batched:
            # [N G, K H / G, S]
            rows = weights.view(keys.shape[0] * keys.shape[1], -1, keys.shape[2])
            return torch.bmm(rows, values.flatten(0, 1)).view_as(query).float()
    low = query.to(keys.dtype)
    return F.scaled_dot_product_attention(
        low, keys, values, attn_mask=mask, enable_gqa=groups > 1
    ).float()


def _weights(query: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
    """Return attention weights [N, H, K, S] of queries [N, H, K, W] and keys [N, G, S, W], in the
    keys' precision.
    """
    scaled = (query / query.shape[3] ** 0.5).to(keys.dtype)
    rows = scaled.reshape(keys.shape[0] * keys.shape[1], -1, keys.shape[3])
    scores = torch.bmm(rows, keys.flatten(0, 1).transpose(1, 2)).view(*query.shape[:3], -1)
    return (scores if mask is None else scores.add_(mask)).softmax(-1)


def supports_transformer_decoder(decoder: nn.Module) -> TypeGuard[TransformerDecoder]:
    """Return whether all parts of a decoder are those whose formula is written here."""
    attentions = (
        part
        for layer in getattr(decoder, "layers", ())
        for part in (layer.self_attention, layer.cross_attention)
    )
    return (
        type(decoder) is TransformerDecoder
        and all(type(layer) is DecoderLayer for layer in decoder.layers)
        and all(type(attention) is MultiHeadAttention for attention in attentions)
    )
