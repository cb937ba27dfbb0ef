"""The masked softmax of all attention."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the real entries of the last dimension, in float32 or better for scores of any
    precision.

    A row without real entries gives 0, with gradient 0.
    """
    exact = torch.promote_types(scores.dtype, torch.float32)
    if mask is None:
        return scores.softmax(-1, dtype=exact)
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return filled.softmax(-1, dtype=exact).masked_fill(~mask, 0.0)
