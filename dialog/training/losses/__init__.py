"""Training losses.

Read first: `loss.py`.
"""

from __future__ import annotations

from dialog.config.components import Family
from dialog.training.losses.loss import Loss, LossSums, build_loss, needs_of
from dialog.training.losses.r_drop import RDrop
from dialog.training.losses.single import SINGLE, CrossEntropy, Focal, Unlikelihood

__all__ = [
    "LOSSES",
    "CrossEntropy",
    "Focal",
    "Loss",
    "LossSums",
    "RDrop",
    "Unlikelihood",
    "build_loss",
    "needs_of",
]

LOSSES: Family[Loss] = Family("loss", {**SINGLE, "r_drop": RDrop}, runtime=("padding",))
