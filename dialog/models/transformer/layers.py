"""Transformer encoder and decoder; Vaswani et al. 2017, and with norms before the sublayers Xiong et al. 2020.

Shapes: B rows, S source tokens, T target tokens, E embedding size (= D width), M memory size, H heads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from dialog.components import Component, build
from dialog.models.attention import MultiHeadAttention
from dialog.models.contracts import AttentionHook, Decoder, Encoded, Encoder
from dialog.models.positions import POSITIONS
from dialog.models.state import Rows

SINUSOIDAL: Component = {"name": "sinusoidal"}
KeysValues = tuple[Tensor, Tensor]


class FeedForward(nn.Sequential):
    """max(0, x W_1 + b_1) W_2 + b_2, at each position; Vaswani et al. 2017, 3.3."""

    def __init__(self, size: int, inner: int, dropout: float) -> None:
        super().__init__(nn.Linear(size, inner), nn.ReLU(), nn.Dropout(dropout), nn.Linear(inner, size))
        for name, parameter in self.named_parameters():
            (nn.init.zeros_ if name.endswith("bias") else nn.init.xavier_uniform_)(parameter)


class Residual(nn.Module):
    """A sublayer with its norm: x + f(norm(x)) with the norm first, norm(x + f(x)) with the norm last."""

    def __init__(self, size: int, dropout: float, norm_first: bool) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """States [B, T, D] -> [B, T, D]."""
        added: Tensor
        if self.norm_first:
            added = states + self.dropout(sublayer(self.norm(states)))
        else:
            added = self.norm(states + self.dropout(sublayer(states)))
        return added  # [B, T, D]


class EncoderLayer(nn.Module):
    """Self-attention over the source, then the feed-forward network."""

    def __init__(self, size: int, heads: int, inner: int, *, dropout: float, norm_first: bool) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(size, heads, dropout=dropout)
        self.feed_forward = FeedForward(size, inner, dropout)
        self.self_residual, self.feed_residual = (Residual(size, dropout, norm_first) for _ in range(2))

    def forward(self, states: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Tensor:
        """States [B, S, D], mask [B, 1, 1, S] -> [B, S, D]."""

        def attend(x: Tensor) -> Tensor:
            attended: Tensor = self.self_attention(x, *self.self_attention.keys_values(x), mask, hook=hook)
            return attended

        states = self.self_residual(states, attend)
        states = self.feed_residual(states, self.feed_forward)
        return states  # [B, S, D]


class DecoderLayer(nn.Module):
    """Self-attention over what was said, cross-attention to the source, then the feed-forward network."""

    def __init__(self, size: int, heads: int, inner: int, *, dropout: float, norm_first: bool) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(size, heads, dropout=dropout)
        self.cross_attention = MultiHeadAttention(size, heads, dropout=dropout)
        self.feed_forward = FeedForward(size, inner, dropout)
        self.self_residual, self.cross_residual, self.feed_residual = (
            Residual(size, dropout, norm_first) for _ in range(3)
        )

    def forward(
        self, states: Tensor, past: KeysValues, source: KeysValues, mask: Tensor, hook: AttentionHook | None = None
    ) -> tuple[Tensor, KeysValues]:
        """States [B, T, D] -> [B, T, D], and the keys and values of all that was said [B, H, T', D / H]."""
        said = past

        def remember(x: Tensor) -> Tensor:
            nonlocal said
            keys, values = self.self_attention.keys_values(x)
            said = torch.cat([past[0], keys], 2), torch.cat([past[1], values], 2)
            attended: Tensor = self.self_attention(x, *said, causal=True, hook=hook)
            return attended

        def consult(x: Tensor) -> Tensor:
            attended: Tensor = self.cross_attention(x, *source, mask, hook=hook)
            return attended

        states = self.self_residual(states, remember)
        states = self.cross_residual(states, consult)
        states = self.feed_residual(states, self.feed_forward)
        return states, said  # [B, T, D]


def last_norm(size: int, norm_first: bool) -> nn.Module:
    """With norms first, the sum that leaves the last layer has none yet."""
    return nn.LayerNorm(size) if norm_first else nn.Identity()


class TransformerEncoder(Encoder):
    """Layers of self-attention over the whole source; the summary is the mean state."""

    def __init__(
        self,
        *,
        input_size: int,
        heads: int,
        feed_forward_size: int,
        layers: int,
        norm_first: bool = True,
        positions: Component = SINUSOIDAL,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers must be at least 1, not {layers}")
        self.size = input_size
        self.positions = build(POSITIONS, positions, size=input_size)
        self.layers = nn.ModuleList(
            EncoderLayer(input_size, heads, feed_forward_size, dropout=dropout, norm_first=norm_first)
            for _ in range(layers)
        )
        self.norm = last_norm(input_size, norm_first)

    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Inputs [B, S, E], mask [B, S] -> states [B, S, M]."""
        states = self.positions(inputs)
        for layer in self.layers:
            states = layer(states, mask[:, None, None], hook)
        real = mask.unsqueeze(-1)
        states = self.norm(states).masked_fill(~real, 0.0)  # [B, S, M]
        summary = states.sum(1) / real.sum(1).clamp(min=1)  # [B, M]
        return Encoded(states, mask, summary)


@dataclass(frozen=True)
class SourceMemory(Rows):
    """Keys and values of the source, for each layer's cross-attention."""

    layers: tuple[KeysValues, ...]  # each [B, H, S, D / H]
    mask: Tensor  # [B, 1, 1, S]


@dataclass(frozen=True)
class SaidState(Rows):
    """Keys and values of what was said so far, for each layer's self-attention."""

    layers: tuple[KeysValues, ...]  # each [B, H, T, D / H]

    @property
    def length(self) -> int:
        """How many tokens were said."""
        return self.layers[0][0].shape[2]


class TransformerDecoder(Decoder):
    """Layers of causal self-attention and cross-attention to the source."""

    def __init__(
        self,
        *,
        input_size: int,
        memory_size: int,
        heads: int,
        feed_forward_size: int,
        layers: int,
        norm_first: bool = True,
        positions: Component = SINUSOIDAL,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if layers < 1:
            raise ValueError(f"layers must be at least 1, not {layers}")
        self.positions = build(POSITIONS, positions, size=input_size)
        self.bridge = nn.Identity() if memory_size == input_size else nn.Linear(memory_size, input_size)
        self.layers = nn.ModuleList(
            DecoderLayer(input_size, heads, feed_forward_size, dropout=dropout, norm_first=norm_first)
            for _ in range(layers)
        )
        self.norm = last_norm(input_size, norm_first)

    def start(self, encoded: Encoded) -> tuple[SourceMemory, SaidState]:
        """The source's keys and values for each layer, and nothing said yet."""
        states = self.bridge(encoded.states)
        layers = [cast("DecoderLayer", layer) for layer in self.layers]
        source = tuple(layer.cross_attention.keys_values(states) for layer in layers)
        nothing = source[0][0][:, :, :0]  # [B, H, 0, D / H]
        return SourceMemory(source, encoded.mask[:, None, None]), SaidState(((nothing, nothing),) * len(layers))

    def forward(
        self, inputs: Tensor, memory: SourceMemory, state: SaidState, hook: AttentionHook | None = None
    ) -> tuple[Tensor, SaidState]:
        """Inputs [B, T, E] -> outputs [B, T, E] and the state after them."""
        states = self.positions(inputs, state.length)
        said = []
        for layer, past, source in zip(self.layers, state.layers, memory.layers, strict=True):
            states, keys_values = layer(states, past, source, memory.mask, hook)
            said.append(keys_values)
        return self.norm(states), SaidState(tuple(said))
