"""The peak of this process's memory."""

from __future__ import annotations

import re
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

PROCESS = Path("/proc/self")


def forget_peak() -> None:
    """Begin anew, where the system can: what was there before, such as preparation, no longer counts."""
    with suppress(OSError):
        (PROCESS / "clear_refs").write_text("5")
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak() -> int:
    """Bytes resident in memory at the peak."""
    with suppress(OSError):
        found = re.search(r"^VmHWM:\s+(\d+) kB", (PROCESS / "status").read_text(), re.MULTILINE)
        if found:
            return int(found[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def cuda_peak() -> int | None:
    """Bytes of tensors on the GPU at the peak; none without one."""
    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
