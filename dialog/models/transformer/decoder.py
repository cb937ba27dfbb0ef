"""Transformer decoder.

Shapes: B rows, S source tokens, T target tokens, E embedding size (= D width), M memory size, H
heads, G heads of keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from dialog.models.attention import MultiHeadAttention
from dialog.models.attention.multi_head import MANY
from dialog.models.attention.softmax import additive_mask
from dialog.models.contracts import AttentionHook, Decoder, Encoded
from dialog.models.kernels.linear import Linear, has_fast_bfloat16
from dialog.models.positions import Turn
from dialog.models.state import Rows, SharedRows
from dialog.models.transformer.cache import KeysValues, SelfAttentionState
from dialog.models.transformer.layers import DecoderLayer, PreparedDecoderLayer, checkpointed
from dialog.models.transformer.real_tokens import RealTokens
from dialog.models.transformer.sublayers import prepared_norm
from dialog.models.transformer.transformer_settings import TransformerSettings


@dataclass(frozen=True)
class CrossAttentionMemory(Rows):
    """Keys and values of the source, for each layer's cross-attention."""

    layers: tuple[KeysValues, ...]  # each [B, G, S, D / H]
    mask: Tensor  # [B, 1, 1, S]


class TransformerDecoder(Decoder):
    """Layers of causal self-attention and cross-attention to the source."""

    Settings = TransformerSettings
    own_dropout = True
    preparable = True

    def __init__(self, settings: TransformerSettings, *, memory_size: int) -> None:
        super().__init__()
        size = settings.input_size
        self.positions = settings.position_encoding()
        self.dropout = nn.Dropout(settings.dropout)
        self.bridge = nn.Identity() if memory_size == size else Linear(memory_size, size)
        self.layers = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.layers))
        self.layer_drop = settings.drop_layers()
        self.activation_checkpointing = settings.activation_checkpointing
        self.norm = settings.last_norm()

    @property
    def pointer(self) -> MultiHeadAttention:
        """The last layer's cross-attention."""
        return cast("DecoderLayer", self.layers[-1]).cross_attention

    def prepared(self, *, int8: bool) -> PreparedTransformerDecoder:
        """Return the same steps in fewer calls."""
        return PreparedTransformerDecoder(self, int8=int8)

    def start(self, encoded: Encoded) -> tuple[CrossAttentionMemory, SelfAttentionState]:
        """Return the source's keys and values for each layer, and a state of no tokens."""
        states = self.bridge(encoded.states)
        source = tuple(
            cast("DecoderLayer", layer).source_keys_values(states) for layer in self.layers
        )
        return CrossAttentionMemory(source, encoded.mask[:, None, None]), SelfAttentionState.empty(
            len(source), like=source[0][0]
        )

    def forward(
        self,
        inputs: Tensor,
        memory: CrossAttentionMemory,
        state: SelfAttentionState,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, SelfAttentionState]:
        """Map inputs [B, T, E] to outputs [B, T, E]."""
        extension = state.extended(inputs.shape[1])
        self.positions.check_length(extension.end)
        position = state.position
        states = self.dropout(self.positions(inputs, position))
        turn = self.positions.turn_at(inputs, position)
        buffers = []
        for layer, past, source in zip(self.layers, state.layers, memory.layers, strict=True):
            run = checkpointed(layer, hook=hook) if self.activation_checkpointing else layer
            after, written = run(
                states, past, source, extension, mask=memory.mask, turn=turn, hook=hook
            )
            states = self.layer_drop(states, after)
            buffers.append(written)
        return self.norm(states), extension.state(tuple(buffers))


class PreparedTransformerDecoder(Decoder):
    """Decoder layers; products in the precision of the weights or in int8.

    The rest is in float32 on a CPU, and elsewhere in the precision of the weights: on a GPU, casts
    before and after each product would be 67 of 157 kernels a token for four layers.

    The token's query, key and value are one product, positions are computed once, and the rows of a
    beam share their source's keys and values.

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
        self.dtype = activation_type(next(decoder.parameters()))
        self.layers = [PreparedDecoderLayer(layer, self.dtype, int8) for layer in decoder.layers]
        self.norm = prepared_norm(decoder.norm, self.dtype)
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
        mask = additive_mask(encoded.mask[:, None, None], dtype)
        return SharedRows(tuple(parts), (mask,)), state

    def forward(
        self,
        inputs: Tensor,
        memory: SharedRows,
        state: SelfAttentionState,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, SelfAttentionState]:
        """Map inputs [B, T, D] to outputs [B, T, D]; the hook is called for each token."""
        outputs = []
        source = memory.parts
        (source_mask,) = memory.masks
        for token in inputs.to(self.dtype).unbind(1):  # [B, D]
            extension = state.extended(1)
            self.original.positions.check_length(extension.end)
            shift, turn = self._position(token, state.position)
            states = token + shift
            mask = extension.mask
            own_mask = None if mask is None else additive_mask(mask, state.layers[0][0].dtype)
            buffers = []
            for depth, layer in enumerate(self.layers):
                keys_values = source[2 * depth], source[2 * depth + 1]
                states, written = layer(
                    states,
                    state.layers[depth],
                    keys_values,
                    extension,
                    (own_mask, source_mask),
                    turn,
                    hook,
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

    def _position(self, tokens: Tensor, place: int | Tensor) -> tuple[Tensor, Turn]:
        """Return what is added to inputs [B, D] at a position, and how their heads are turned;
        computed once, unless the positions of the rows differ [B].
        """
        if isinstance(place, Tensor):
            zeros = torch.zeros_like(tokens).unsqueeze(1)
            positions = self.original.positions
            return positions(zeros, place).squeeze(1), positions.turn_at(zeros, place)
        while len(self.positions) <= place:
            zeros = tokens.new_zeros(1, 1, tokens.shape[1])
            positions = self.original.positions
            place_of = len(self.positions)
            self.positions.append(
                (positions(zeros, place_of).view(-1), positions.turn_at(zeros, place_of))
            )
        return self.positions[place]


def activation_type(weight: Tensor) -> torch.dtype:
    """Return the type of what is between the products of `PreparedTransformerDecoder`."""
    return torch.float32 if weight.device.type == "cpu" else weight.dtype
