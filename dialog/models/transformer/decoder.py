"""Transformer decoder.

Shapes: B rows, S source tokens, T target tokens, E embedding size (= D width), M memory size, H
heads, G heads of keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from torch import Tensor, nn

from dialog.models.attention import MultiHeadAttention
from dialog.models.contracts import AttentionHook, Decoder, Encoded
from dialog.models.kernels.linear import Linear
from dialog.models.state import Rows
from dialog.models.transformer.cache import KeysValues, SelfAttentionState
from dialog.models.transformer.layers import DecoderLayer, checkpointed
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
        states = self.dropout(self.positions(inputs, state.length))
        turn = self.positions.turn_at(inputs, state.length)
        extension = state.extended(inputs.shape[1])
        buffers = []
        for layer, past, source in zip(self.layers, state.layers, memory.layers, strict=True):
            run = checkpointed(layer, hook=hook) if self.activation_checkpointing else layer
            after, written = run(
                states, past, source, extension, mask=memory.mask, turn=turn, hook=hook
            )
            states = self.layer_drop(states, after)
            buffers.append(written)
        return self.norm(states), extension.state(tuple(buffers))
