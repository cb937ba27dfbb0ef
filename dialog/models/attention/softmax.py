"""The one masked softmax."""

from __future__ import annotations

import torch
from torch import Tensor


def masked_softmax(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Softmax over the last dimension's real entries, in float32 or better, whatever the scores are in.

    A row in which nothing is real gives 0, with gradient 0.
    """
    exact = torch.promote_types(scores.dtype, torch.float32)
    if mask is None:
        return scores.softmax(-1, dtype=exact)
    filled = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return filled.softmax(-1, dtype=exact).masked_fill(~mask, 0.0)
