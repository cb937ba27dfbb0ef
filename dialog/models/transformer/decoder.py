"""Transformer decoder.

Shapes: B rows, S source tokens, T target tokens, T' target tokens so far, E embedding size (= D width), M memory size,
H heads, G heads of keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import cast

from torch import Tensor, nn

from dialog.models.attention import MultiHeadAttention
from dialog.models.contracts import AttentionHook, Decoder, Encoded
from dialog.models.state import Rows
from dialog.models.transformer.layers import DecoderLayer, KeysValues, checkpointed
from dialog.models.transformer.settings import TransformerSettings


@dataclass(frozen=True)
class CrossAttentionMemory(Rows):
    """Keys and values of the source, for each layer's cross-attention."""

    layers: tuple[KeysValues, ...]  # each [B, G, S, D / H]
    mask: Tensor  # [B, 1, 1, S]


@dataclass(frozen=True)
class SelfAttentionState(Rows):
    """Keys (turned by their positions) and values of the target so far, for each layer's self-attention."""

    layers: tuple[KeysValues, ...]  # each [B, G, T', D / H]

    @property
    def length(self) -> int:
        """Number T' of target tokens so far."""
        return self.layers[0][0].shape[2]


class TransformerDecoder(Decoder):
    """Layers of causal self-attention and cross-attention to the source."""

    Settings = TransformerSettings

    def __init__(self, settings: TransformerSettings, *, memory_size: int) -> None:
        super().__init__()
        size = settings.input_size
        self.positions = settings.position_encoding()
        self.bridge = nn.Identity() if memory_size == size else nn.Linear(memory_size, size)
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
        source = tuple(cast("DecoderLayer", layer).source_keys_values(states) for layer in self.layers)
        empty = source[0][0][:, :, :0]  # [B, G, 0, D / H]
        state = SelfAttentionState(((empty, empty),) * len(source))
        return CrossAttentionMemory(source, encoded.mask[:, None, None]), state

    def forward(
        self,
        inputs: Tensor,
        memory: CrossAttentionMemory,
        state: SelfAttentionState,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, SelfAttentionState]:
        """Map inputs [B, T, E] to outputs [B, T, E]."""
        states = self.positions(inputs, state.length)
        turn = partial(self.positions.turn, offset=state.length)
        so_far = []
        for layer, past, source in zip(self.layers, state.layers, memory.layers, strict=True):
            run = checkpointed(layer, hook=hook) if self.activation_checkpointing else layer
            after, keys_values = run(states, past, source, mask=memory.mask, turn=turn, hook=hook)
            states = self.layer_drop(states, after)
            so_far.append(keys_values)
        return self.norm(states), SelfAttentionState(tuple(so_far))
