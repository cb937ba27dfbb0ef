"""Utterances as one hears them in a crowd: words are missing, drowned or out of place.

Shapes: B rows, T tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

from dialog.data.tokenizers.tokenizer import EOS, PAD, UNK
from dialog.training.objectives.unpaired_text import ended


def noised(tokens: Tensor, *, deletion: float, masking: float, distance: int) -> Tensor:
    """Rows ``ids </s>`` padded on the right [B, T], with their ids deleted, masked and moved; Lample et al. 2018, 2.3.

    Each id is deleted with the probability ``deletion``, and becomes <unk> with the probability ``masking`` if it
    stays. The order is that of i + U(0, k + 1) for the i-th id: none moves by more than the ``distance`` k.
    """
    length = tokens.shape[1]
    words = (tokens != PAD) & (tokens != EOS)  # [B, T]
    kept = words & (_uniform(tokens) >= deletion)
    keys = torch.arange(length, device=tokens.device) + (distance + 1) * _uniform(tokens)  # [B, T]
    order = keys.masked_fill(~kept, torch.inf).argsort(dim=1, stable=True)  # [B, T], what is deleted comes last
    masked = tokens.gather(1, order).masked_fill(_uniform(tokens) < masking, UNK)
    return ended(masked, kept.sum(1))


def _uniform(tokens: Tensor) -> Tensor:
    """U(0, 1) for each token."""
    return torch.rand(tokens.shape, device=tokens.device, dtype=torch.float32)  # whatever format is trained in
