"""Settings of layers with residual sums, and the parts that they describe."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from dialog.config.components import Component, build
from dialog.models.attention import MultiHeadAttention
from dialog.models.positions import POSITIONS, PositionEncoding
from dialog.models.transformer.sublayers import FEED_FORWARDS, NORMS, LayerDrop, Residual


@dataclass(frozen=True, kw_only=True)
class LayerSettings:
    """Sizes, kinds of sublayers, and dropout.

    ``dropout`` applies to the inputs of the first layer and to the output of each sublayer, and
    not to the input of the output layer (Vaswani et al. 2017, 5.4); ``attention_dropout`` to
    attention weights, ``activation_dropout`` inside the feed-forward network (None: both as
    ``dropout``), ``layer_drop`` to whole layers. ``activation_checkpointing`` keeps less of each
    layer in training and computes it again.

    Raises:
        ValueError: an unknown name or an impossible number.
    """

    input_size: int
    heads: int
    feed_forward_size: int
    layers: int
    norm_first: bool = True
    norm: str = "layer_norm"
    activation: str = "relu"
    key_value_heads: int | None = None
    dropout: float = 0.0
    attention_dropout: float | None = None
    activation_dropout: float | None = None
    layer_drop: float = 0.0
    activation_checkpointing: bool = False

    def __post_init__(self) -> None:
        """Validate all values."""
        for name in ("layers", "feed_forward_size"):
            if (number := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 1, not {number}")
        for name, table in (("norm", NORMS), ("activation", FEED_FORWARDS)):
            if (value := getattr(self, name)) not in table:
                raise ValueError(f"{name} must be one of {', '.join(table)}, not {value!r}")
        for name in ("dropout", "attention_dropout", "activation_dropout", "layer_drop"):
            if (value := getattr(self, name)) is not None and not 0 <= value < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, not {value}")

    def attention(self) -> MultiHeadAttention:
        """Self- or cross-attention, with dropout of its weights."""
        dropout = self.dropout if self.attention_dropout is None else self.attention_dropout
        return MultiHeadAttention(
            self.input_size, self.heads, dropout=dropout, key_value_heads=self.key_value_heads
        )

    def feed_forward(self) -> nn.Module:
        """The network at each position, with dropout of its inner states."""
        dropout = self.dropout if self.activation_dropout is None else self.activation_dropout
        return FEED_FORWARDS[self.activation](self.input_size, self.feed_forward_size, dropout)

    def residual(self) -> Residual:
        """The sum and the norm around a sublayer, with dropout of the sublayer's output."""
        return Residual(NORMS[self.norm](self.input_size), self.dropout, self.norm_first)

    def last_norm(self) -> nn.Module:
        """The norm after the last layer; with norms last, that layer has its own."""
        return NORMS[self.norm](self.input_size) if self.norm_first else nn.Identity()

    def drop_layers(self) -> LayerDrop:
        """Dropout of whole layers."""
        return LayerDrop(self.layer_drop)


@dataclass(frozen=True, kw_only=True)
class TransformerSettings(LayerSettings):
    """Settings of a Transformer: those of its layers, and the positions of the tokens."""

    positions: Component = field(default_factory=lambda: {"name": "sinusoidal"})

    def position_encoding(self) -> PositionEncoding:
        """Positions of the tokens."""
        return build(POSITIONS, self.positions, size=self.input_size, heads=self.heads)
