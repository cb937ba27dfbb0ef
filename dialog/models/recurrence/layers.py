"""Layers of a mixer, cross-attention and a feed-forward network.

Shapes: B rows, T tokens, S source tokens, D size of the model.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from dialog.config.components import Component, build
from dialog.models.attention import MultiHeadAttention
from dialog.models.contracts import AttentionHook, meant_for
from dialog.models.recurrence.mixers import MIXERS
from dialog.models.recurrence.mixers.mixer import Mixer, MixerState
from dialog.models.recurrent.cells import take_steps
from dialog.models.transformer.cache import KeysValues
from dialog.models.transformer.transformer_settings import LayerSettings


class MixerEncoderLayer(nn.Module):
    """A mixer for each direction, whose outputs are added, then the feed-forward network.

    Two directions have half the width and half the heads each, so that a layer has the same size
    with one or two.
    """

    def __init__(
        self, settings: LayerSettings, mixer: Component, *, width: int | None, causal: bool
    ) -> None:
        super().__init__()
        directions = 1 if causal else 2
        total = width or settings.input_size
        if not causal and (total % 2 or (settings.heads > 1 and settings.heads % 2)):
            raise ValueError(
                f"width {total} and heads {settings.heads} must be even for two directions; set"
                " causal to true for one"
            )
        self.mixers = nn.ModuleList(
            build(
                MIXERS,
                mixer,
                size=settings.input_size,
                width=total // directions,
                heads=max(1, settings.heads // directions),
            )
            for _ in range(directions)
        )
        self.feed_forward = settings.feed_forward()
        self.mixer_residual, self.feed_residual = (settings.residual() for _ in range(2))

    def forward(
        self, states: Tensor, mask: Tensor, mirror: Tensor, *, hook: AttentionHook | None = None
    ) -> Tensor:
        """Map states [B, S, D] to [B, S, D]; mask [B, S]; ``mirror`` [B, S] reverses the real
        tokens of each row.
        """

        def mix(x: Tensor) -> Tensor:
            forward, *backward = (cast("Mixer", each) for each in self.mixers)
            mixed: Tensor = forward(x, mask=mask, hook=hook)[0]
            for each in backward:
                mirrored, _ = each(
                    take_steps(x, mirror), mask=mask, hook=_mirrored(hook, each, mirror)
                )
                mixed = mixed + take_steps(mirrored, mirror)
            return mixed

        states = self.mixer_residual(states, mix)
        states = self.feed_residual(states, self.feed_forward)
        return states  # [B, S, D]


def _mirrored(hook: AttentionHook | None, mixer: Mixer, mirror: Tensor) -> AttentionHook | None:
    """Return the hook for a mixer that reads rows in reverse: it gets the weights in order."""
    wanted = meant_for(hook, mixer)
    if wanted is None:
        return None

    def show(module: nn.Module, weights: Tensor) -> None:
        places = mirror[:, None].expand(-1, weights.shape[1], -1)  # [B, H, T]
        weights = weights.gather(2, places.unsqueeze(-1).expand_as(weights))
        wanted(module, weights.gather(3, places.unsqueeze(-2).expand_as(weights)))

    return show


class MixerDecoderLayer(nn.Module):
    """A mixer over the target, cross-attention to the source unless left out, then the
    feed-forward network.
    """

    def __init__(
        self,
        settings: LayerSettings,
        mixer: Component,
        *,
        width: int | None,
        cross_attention: bool,
    ) -> None:
        super().__init__()
        size = settings.input_size
        self.mixer = build(MIXERS, mixer, size=size, width=width or size, heads=settings.heads)
        self.cross_attention = settings.attention() if cross_attention else None
        self.feed_forward = settings.feed_forward()
        self.mixer_residual, self.feed_residual = (settings.residual() for _ in range(2))
        self.cross_residual = settings.residual() if cross_attention else None

    def source_keys_values(self, states: Tensor) -> KeysValues:
        """Project source states [B, S, D] to the keys and values [B, G, S, D / H] of the
        cross-attention.
        """
        return cast("MultiHeadAttention", self.cross_attention).keys_values(states)

    def forward(
        self,
        states: Tensor,
        before: MixerState,
        source: KeysValues | None,
        mask: Tensor | None,
        *,
        real: Tensor | None = None,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, MixerState]:
        """Map states [B, T, D] to [B, T, D]; also return the mixer's new state.

        The source's keys and values, and their mask [B, 1, 1, S], are None without cross-attention.
        The mask ``real`` [B, T] is that of the states; None: all are real.
        """
        after = before

        def mix(x: Tensor) -> Tensor:
            nonlocal after
            mixed: Tensor
            mixed, after = self.mixer(x, before, real, hook)
            return mixed

        def attend_to_source(x: Tensor) -> Tensor:
            assert source is not None
            attention = cast("MultiHeadAttention", self.cross_attention)
            attended: Tensor = attention(x, *source, mask, hook=hook)
            return attended  # [B, T, D]

        states = self.mixer_residual(states, mix)
        if self.cross_residual is not None and source is not None:
            states = self.cross_residual(states, attend_to_source)
        states = self.feed_residual(states, self.feed_forward)
        return states, after  # [B, T, D]


def mirrored_steps(mask: Tensor) -> Tensor:
    """Return steps [B, S] that reverse the real tokens of each row, and leave its padding."""
    steps = torch.arange(mask.shape[1], device=mask.device)  # [S]
    return torch.where(mask, mask.sum(1, keepdim=True) - 1 - steps, steps)
