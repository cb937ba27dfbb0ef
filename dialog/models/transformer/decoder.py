"""The Transformer that speaks.

Shapes: B rows, S source tokens, T target tokens, T' of them said so far, E embedding size (= D width), M memory size,
H heads, G heads of keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import cast

from torch import Tensor, nn

from dialog.config.components import Component, build
from dialog.models.attention import MultiHeadAttention
from dialog.models.contracts import AttentionHook, Decoder, Encoded
from dialog.models.positions import POSITIONS
from dialog.models.state import Rows
from dialog.models.transformer.layers import DecoderLayer, KeysValues, saving, stack
from dialog.models.transformer.settings import SINUSOIDAL, LayerSettings
from dialog.models.transformer.sublayers import LayerDrop


@dataclass(frozen=True)
class SourceMemory(Rows):
    """Keys and values of the source, for each layer's cross-attention."""

    layers: tuple[KeysValues, ...]  # each [B, G, S, D / H]
    mask: Tensor  # [B, 1, 1, S]


@dataclass(frozen=True)
class SaidState(Rows):
    """Keys (turned by their positions) and values of what was said so far, for each layer's self-attention."""

    layers: tuple[KeysValues, ...]  # each [B, G, T', D / H]

    @property
    def length(self) -> int:
        """How many tokens were said."""
        return self.layers[0][0].shape[2]


class TransformerDecoder(Decoder):
    """Layers of causal self-attention and cross-attention to the source.

    ``attention_dropout`` falls on attention weights, ``activation_dropout`` inside the feed-forward network (None:
    both as ``dropout``, which falls on what each sublayer adds), ``layer_drop`` on whole layers. With
    ``activation_checkpointing`` training keeps less of each layer and computes it again.
    """

    def __init__(
        self,
        *,
        input_size: int,
        memory_size: int,
        heads: int,
        feed_forward_size: int,
        layers: int,
        norm_first: bool = True,
        norm: str = "layer_norm",
        activation: str = "relu",
        positions: Component = SINUSOIDAL,
        key_value_heads: int | None = None,
        dropout: float = 0.0,
        attention_dropout: float | None = None,
        activation_dropout: float | None = None,
        layer_drop: float = 0.0,
        activation_checkpointing: bool = False,
    ) -> None:
        super().__init__()
        settings = LayerSettings(
            size=input_size,
            heads=heads,
            feed_forward_size=feed_forward_size,
            norm_first=norm_first,
            norm=norm,
            activation=activation,
            key_value_heads=key_value_heads,
            dropout=dropout,
            attention_dropout=attention_dropout,
            activation_dropout=activation_dropout,
        )
        self.positions = build(POSITIONS, positions, size=input_size, heads=heads)
        self.bridge = nn.Identity() if memory_size == input_size else nn.Linear(memory_size, input_size)
        self.layers = stack(DecoderLayer, layers, settings)
        self.layer_drop = LayerDrop(layer_drop)
        self.saves = activation_checkpointing
        self.norm = settings.last_norm()

    @property
    def pointer(self) -> MultiHeadAttention:
        """The last layer's cross-attention: its weights say where in the source a token comes from."""
        return cast("DecoderLayer", self.layers[-1]).cross_attention

    def start(self, encoded: Encoded) -> tuple[SourceMemory, SaidState]:
        """The source's keys and values for each layer, and nothing said yet."""
        states = self.bridge(encoded.states)
        source = tuple(cast("DecoderLayer", layer).read(states) for layer in self.layers)
        nothing = source[0][0][:, :, :0]  # [B, G, 0, D / H]
        return SourceMemory(source, encoded.mask[:, None, None]), SaidState(((nothing, nothing),) * len(source))

    def forward(
        self, inputs: Tensor, memory: SourceMemory, state: SaidState, hook: AttentionHook | None = None
    ) -> tuple[Tensor, SaidState]:
        """Inputs [B, T, E] -> outputs [B, T, E] and the state after them."""
        states = self.positions(inputs, state.length)
        turn = partial(self.positions.turn, offset=state.length)
        said = []
        for layer, past, source in zip(self.layers, state.layers, memory.layers, strict=True):
            run = saving(layer, hook=hook) if self.saves else layer
            after, keys_values = run(states, past, source, mask=memory.mask, turn=turn, hook=hook)
            states = self.layer_drop(states, after)
            said.append(keys_values)
        return self.norm(states), SaidState(tuple(said))
