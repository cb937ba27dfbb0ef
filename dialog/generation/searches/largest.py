"""Largest elements of long rows.

Shapes: V elements of a row, c of them wanted.
"""

from __future__ import annotations

import torch
from torch import Tensor

PART = 64
"""Elements of a part of a row; the maximum of a multiple of 32 is fastest."""
MANY = 2**16
"""Elements from which the parts save time; for fewer, torch's own functions are faster."""


def largest(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the ``count`` largest elements of each row [.., V] in descending order, and their
    places, each [.., c].

    They are in the c parts with the largest maxima, or in the rest behind the last part. Of equal
    elements the first one is the largest of a row. On a CPU this is faster than `topk`: maxima of
    parts are vectorised.
    """
    parts = scores.shape[-1] // PART
    if scores.device.type != "cpu" or scores.numel() < MANY or parts <= count:
        return _top(scores, count)
    split = parts * PART
    whole = scores[..., :split].view(*scores.shape[:-1], parts, PART)
    _, best = _top(whole.amax(-1), count)  # [.., c]
    candidates = whole.gather(-2, best.unsqueeze(-1).expand(*best.shape, PART)).flatten(-2)
    places = (best.unsqueeze(-1) * PART + torch.arange(PART)).flatten(-2)
    if split < scores.shape[-1]:
        candidates = torch.cat([candidates, scores[..., split:]], -1)
        rest = torch.arange(split, scores.shape[-1]).expand(*places.shape[:-1], -1)
        places = torch.cat([places, rest], -1)
    values, chosen = _top(candidates, count)
    return values, places.gather(-1, chosen)


def _top(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return `topk`; for one element by `max`, which is faster and returns the first of equal
    ones.
    """
    if count > 1:
        values, places = scores.topk(count, -1)
    else:
        values, places = scores.max(-1, keepdim=True)
    return values, places
