"""The Transformer that reads.

Shapes: B rows, S source tokens, E embedding size (= D width), M memory size (= D).
"""

from __future__ import annotations

from torch import Tensor

from dialog.config.components import Component, build
from dialog.models.contracts import AttentionHook, Encoded, Encoder
from dialog.models.positions import POSITIONS
from dialog.models.transformer.layers import EncoderLayer, saving, stack
from dialog.models.transformer.settings import SINUSOIDAL, LayerSettings
from dialog.models.transformer.sublayers import LayerDrop


class TransformerEncoder(Encoder):
    """Layers of self-attention over the whole source; the summary is the mean state.

    ``attention_dropout`` falls on attention weights, ``activation_dropout`` inside the feed-forward network (None:
    both as ``dropout``, which falls on what each sublayer adds), ``layer_drop`` on whole layers. With
    ``activation_checkpointing`` training keeps less of each layer and computes it again.
    """

    def __init__(
        self,
        *,
        input_size: int,
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
        self.size = input_size
        self.positions = build(POSITIONS, positions, size=input_size, heads=heads)
        self.layers = stack(EncoderLayer, layers, settings)
        self.layer_drop = LayerDrop(layer_drop)
        self.saves = activation_checkpointing
        self.norm = settings.last_norm()

    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Inputs [B, S, E], mask [B, S] -> states [B, S, M]."""
        states = self.positions(inputs)
        for layer in self.layers:
            run = saving(layer, hook=hook) if self.saves else layer
            after = run(states, mask[:, None, None], self.positions.turn, hook=hook)
            states = self.layer_drop(states, after)
        real = mask.unsqueeze(-1)
        states = self.norm(states).masked_fill(~real, 0.0)  # [B, S, M]
        summary = states.sum(1) / real.sum(1).clamp(min=1)  # [B, M]
        return Encoded(states, mask, summary)
