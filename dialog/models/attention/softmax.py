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


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 at real tokens and the lowest number at padding, to be added to scores; of the
    mask's shape.
    """
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(
        ~mask, torch.finfo(dtype).min
    )
