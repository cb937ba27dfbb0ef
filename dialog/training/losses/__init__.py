"""What training lowers, as a recipe names it."""

from __future__ import annotations

from dialog.config.components import Family
from dialog.training.losses.contract import Loss, LossSums, asks, build_loss, given
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
    "asks",
    "build_loss",
    "given",
]

LOSSES: Family[Loss] = Family("loss", {**SINGLE, "r_drop": RDrop}, runtime=("padding",))
