"""What the layers of a stack have in common."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from dialog.config.components import Component
from dialog.models.attention import MultiHeadAttention
from dialog.models.transformer.feed_forward import FEED_FORWARDS
from dialog.models.transformer.sublayers import NORMS, Residual

SINUSOIDAL: Component = {"name": "sinusoidal"}
"""The positions of a recipe that names none."""


@dataclass(frozen=True, kw_only=True)
class LayerSettings:
    """The arguments of encoder and decoder that their layers need, checked here, and the parts that they mean.

    Raises:
        ValueError: a name that is in no table, or a number that cannot be.
    """

    size: int
    heads: int
    feed_forward_size: int
    norm_first: bool
    norm: str
    activation: str
    key_value_heads: int | None
    dropout: float
    attention_dropout: float | None
    activation_dropout: float | None

    def __post_init__(self) -> None:
        """Refuse what cannot be built, in words of the recipe."""
        if self.feed_forward_size < 1:
            raise ValueError(f"feed_forward_size must be at least 1, not {self.feed_forward_size}")
        for name, table in (("norm", NORMS), ("activation", FEED_FORWARDS)):
            if (value := getattr(self, name)) not in table:
                raise ValueError(f"{name} must be one of {', '.join(table)}, not {value!r}")
        for name in ("dropout", "attention_dropout", "activation_dropout"):
            if (value := getattr(self, name)) is not None and not 0 <= value < 1:
                raise ValueError(f"{name} must be at least 0 and below 1, not {value}")

    def attention(self) -> MultiHeadAttention:
        """Self- or cross-attention, with dropout on its weights."""
        dropout = self.dropout if self.attention_dropout is None else self.attention_dropout
        return MultiHeadAttention(self.size, self.heads, dropout=dropout, key_value_heads=self.key_value_heads)

    def feed_forward(self) -> nn.Module:
        """The network at each position, with dropout on its inner states."""
        dropout = self.dropout if self.activation_dropout is None else self.activation_dropout
        return FEED_FORWARDS[self.activation](self.size, self.feed_forward_size, dropout)

    def residual(self) -> Residual:
        """The sum and the norm around a sublayer, with dropout on what the sublayer adds."""
        return Residual(NORMS[self.norm](self.size), self.dropout, self.norm_first)

    def last_norm(self) -> nn.Module:
        """With norms first, the sum that leaves the last layer has none yet."""
        return NORMS[self.norm](self.size) if self.norm_first else nn.Identity()
