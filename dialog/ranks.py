"""Rank and world size of this process."""

from __future__ import annotations

import os


def is_first_process() -> bool:
    """Whether this process writes, where torchrun, SLURM or Lightning has started several."""
    names = ("RANK", "LOCAL_RANK", "SLURM_PROCID")
    return next((os.environ[name] for name in names if name in os.environ), "0") == "0"
