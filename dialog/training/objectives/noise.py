"""Noise for denoising auto-encoding: deletion, masking and local shuffling of tokens.

Shapes: B rows, T tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dialog.data.tokenizers.tokenizer import EOS, PAD, UNK
from dialog.training.objectives.contract import end_rows


def noised(tokens: Tensor, *, deletion: float, masking: float, distance: int) -> Tensor:
    """Delete, mask and shuffle the ids of rows ``ids </s>`` padded on the right [B, T]; Lample et al. 2018, 2.3.

    Each id is deleted with probability ``deletion``; each remaining id becomes <unk> with probability ``masking``. Ids
    are sorted by i + U(0, k + 1) for the i-th id, so none moves by more than the ``distance`` k.
    """
    length = tokens.shape[1]
    words = (tokens != PAD) & (tokens != EOS)  # [B, T]
    kept = words & (_uniform(tokens) >= deletion)
    keys = torch.arange(length, device=tokens.device) + (distance + 1) * _uniform(tokens)  # [B, T]
    order = keys.masked_fill(~kept, torch.inf).argsort(dim=1, stable=True)  # [B, T], deleted ids last
    masked = tokens.gather(1, order).masked_fill(_uniform(tokens) < masking, UNK)
    return end_rows(masked, kept.sum(1))


def _uniform(tokens: Tensor) -> Tensor:
    return torch.rand(tokens.shape, device=tokens.device, dtype=torch.float32)  # whatever precision training uses
