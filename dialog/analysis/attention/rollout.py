"""Attention rollout: attention of a response to the source through all layers.

Shapes: B rows, H heads, T target tokens, S source tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from dialog.analysis.attention.maps import AttentionMap


def rollout(maps: Sequence[AttentionMap]) -> Tensor | None:
    """Return the rollout [B, T, S] of one forward pass, rows sum to 1; None without
    cross-attention.

    Each attention counts as A' = (A + I) / 2 with A the mean over heads, since a residual
    connection keeps half of a state; Abnar & Zuidema 2020, section 3. The encoder's E is the
    product of its A'. In the decoder, each row is the part of a state that comes from each source
    token: self-attention mixes rows, R <- A' R, and cross-attention C adds to them, R <- (R + C E)
    / 2, from R = 0. Only the source's part is kept, and rows are divided by their sum. With
    recurrent layers, which have no weights between their states, the rollout is the cross-attention
    itself. Attention over whole turns (hierarchical encoders) is not followed. The rollout of an
    ensemble is the mean over its networks.
    """
    networks = {
        attention.network: [one for one in maps if one.network == attention.network]
        for attention in maps
    }
    followed = [one for one in map(_rollout_of_network, networks.values()) if one is not None]
    return torch.stack(followed).mean(0) if followed else None


def _rollout_of_network(maps: Sequence[AttentionMap]) -> Tensor | None:
    """Return the rollout [B, T, S] of one network; None without cross-attention."""
    encoder: Tensor | None = None  # None: the identity
    source: Tensor | None = None  # None: 0
    for attention in maps:
        if "turns" in (attention.side, attention.columns):
            continue
        mean = attention.weights.mean(1)
        if attention.side == "source":
            kept = (
                torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)
                if encoder is None
                else encoder
            )
            encoder = (mean @ kept + kept) / 2  # [B, S, S]
        elif attention.kind == "cross":
            reached = mean if encoder is None else mean @ encoder  # [B, T, S]
            source = reached / 2 if source is None else (source + reached) / 2
        elif source is not None:
            source = (mean @ source + source) / 2
    if source is None:
        return None
    return source / source.sum(-1, keepdim=True).clamp(min=torch.finfo(source.dtype).tiny)
