"""Rank and world size of this process; the only file that reads them."""

from __future__ import annotations

import os


def world_size() -> int:
    """Return the number of processes of the group that this process has joined; 1 without a
    group.
    """
    import torch.distributed as dist

    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return this process's number in its group, from 0; 0 without a group."""
    import torch.distributed as dist

    return dist.get_rank() if world_size() > 1 else 0


def is_first_process() -> bool:
    """Return whether this process writes, from what torchrun, SLURM or Lightning has set before a
    group exists.
    """
    names = ("RANK", "LOCAL_RANK", "SLURM_PROCID")
    return next((os.environ[name] for name in names if name in os.environ), "0") == "0"
