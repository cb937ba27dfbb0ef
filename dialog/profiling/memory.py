"""Peak memory of this process."""

from __future__ import annotations

import re
import resource
import sys
from contextlib import suppress
from pathlib import Path

import torch

PROCESS = Path("/proc/self")


def reset_peak() -> None:
    """Reset the peak where the system supports it, so that earlier work does not count."""
    with suppress(OSError):
        (PROCESS / "clear_refs").write_text("5")
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()


def peak() -> int:
    """Return the peak of resident memory in bytes."""
    with suppress(OSError):
        match = re.search(r"^VmHWM:\s+(\d+) kB", (PROCESS / "status").read_text(), re.MULTILINE)
        if match:
            return int(match[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def cuda_peak() -> int | None:
    """Return the peak of tensor memory on the GPU in bytes, or None without a GPU."""
    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
