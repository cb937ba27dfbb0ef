"""The one masked softmax."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the last dimension's real entries; a row in which nothing is real gives 0, with gradient 0."""
    if mask is None:
        return scores.softmax(-1)
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return filled.softmax(-1).masked_fill(~mask, 0.0)
