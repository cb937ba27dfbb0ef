"""Decoder of mixers.

Shapes: B rows, S source tokens, T target tokens, E embedding size (= D size), M memory size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from dialog.config.components import Component
from dialog.models.attention import MultiHeadAttention
from dialog.models.contracts import AttentionHook, Decoder, Encoded, Memory
from dialog.models.kernels.linear import Linear
from dialog.models.recurrence.layers import MixerDecoderLayer
from dialog.models.recurrence.mixers.mixer import MixerState
from dialog.models.state import Rows
from dialog.models.transformer.decoder import CrossAttentionMemory
from dialog.models.transformer.layers import checkpointed
from dialog.models.transformer.transformer_settings import LayerSettings

MULTI_HEAD = "multi_head"
SUMMARY = "none"
PREFIX = "prefix"
CROSS_ATTENTIONS = (MULTI_HEAD, SUMMARY, PREFIX)
SUMMARY_TOKENS = 4
"""Number of vectors that a decoder without cross-attention reads of the source."""


@dataclass(frozen=True)
class MixerStates(Rows):
    """State of each layer's mixer."""

    layers: tuple[MixerState, ...]


class MixerDecoder(Decoder):
    """Layers of a mixer over the target and of cross-attention to the source.

    ``mixer`` is a component; ``width`` is that of all its heads together (default: the
    embedding's). Without cross-attention the source enters through the first state only. With
    ``cross_attention: none`` the layers read four vectors before all tokens, projections of the
    encoder's summary, by which each mixer fills its own state. In translation that costs about 4
    BLEU (Vardasbi et al. 2023). With ``cross_attention: prefix`` they read all states of the
    encoder: with the encoder ``embedding`` it is a recurrent language model with a prefix.

    Raises:
        ValueError: a width or a number of heads that does not fit, or an unknown
            ``cross_attention``.
    """

    Settings = LayerSettings
    own_dropout = True

    def __init__(
        self,
        settings: LayerSettings,
        *,
        memory_size: int,
        mixer: Component,
        width: int | None = None,
        cross_attention: str = MULTI_HEAD,
    ) -> None:
        super().__init__()
        if cross_attention not in CROSS_ATTENTIONS:
            raise ValueError(
                f"cross_attention must be {', '.join(CROSS_ATTENTIONS)}, not {cross_attention!r}"
            )
        size = settings.input_size
        attends = cross_attention == MULTI_HEAD
        self.dropout = nn.Dropout(settings.dropout)
        self.bridge: nn.Module
        if cross_attention == SUMMARY:
            self.bridge = Linear(memory_size, SUMMARY_TOKENS * size)
        else:
            self.bridge = nn.Identity() if memory_size == size else Linear(memory_size, size)
        self.layers = nn.ModuleList(
            MixerDecoderLayer(settings, mixer, width=width, cross_attention=attends)
            for _ in range(settings.layers)
        )
        self.reads_states = cross_attention == PREFIX
        self.layer_drop = settings.drop_layers()
        self.activation_checkpointing = settings.activation_checkpointing
        self.norm = settings.last_norm()

    @property
    def pointer(self) -> MultiHeadAttention | None:
        """The last layer's cross-attention."""
        return cast("MixerDecoderLayer", self.layers[-1]).cross_attention

    def start(self, encoded: Encoded) -> tuple[Memory, MixerStates]:
        """Return the source's keys and values for each layer, and the states before all tokens."""
        empty = MixerStates((MixerState(),) * len(self.layers))
        if self.reads_states:
            return Rows(), self._run(self.bridge(encoded.states), empty, real=encoded.mask)[1]
        if self.pointer is None:
            vectors = torch.unflatten(self.bridge(encoded.summary), -1, (SUMMARY_TOKENS, -1))
            return Rows(), self._run(vectors, empty)[1]
        states = self.bridge(encoded.states)
        source = tuple(
            cast("MixerDecoderLayer", layer).source_keys_values(states) for layer in self.layers
        )
        return CrossAttentionMemory(source, encoded.mask[:, None, None]), empty

    def forward(
        self,
        inputs: Tensor,
        memory: Memory,
        state: MixerStates,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, MixerStates]:
        """Map inputs [B, T, E] to outputs [B, T, E]."""
        source = memory if isinstance(memory, CrossAttentionMemory) else None
        return self._run(self.dropout(inputs), state, source, hook=hook)

    def _run(
        self,
        states: Tensor,
        state: MixerStates,
        memory: CrossAttentionMemory | None = None,
        *,
        real: Tensor | None = None,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, MixerStates]:
        """Run the layers over states [B, T, E], of which those in the mask [B, T] are real."""
        sources = (None,) * len(self.layers) if memory is None else memory.layers
        mask = None if memory is None else memory.mask
        after = []
        for layer, before, source in zip(self.layers, state.layers, sources, strict=True):
            run = checkpointed(layer, hook=hook) if self.activation_checkpointing else layer
            changed, mixer_state = run(states, before, source, mask, real=real, hook=hook)
            states = self.layer_drop(states, changed)
            after.append(mixer_state)
        return self.norm(states), MixerStates(tuple(after))
