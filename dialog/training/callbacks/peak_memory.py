"""Peak memory of this process, and of its tensors on a GPU."""

from __future__ import annotations

import re
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


def peak_memory(device: torch.device) -> int:
    """Return bytes since `reset_peak`: of all tensors on a GPU, else of the whole process."""
    return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else process_peak()


def process_peak() -> int:
    """Return the peak of resident memory in bytes; 0 on Windows, which has no such figure."""
    with suppress(OSError):
        match = re.search(r"^VmHWM:\s+(\d+) kB", (PROCESS / "status").read_text(), re.MULTILINE)
        if match:
            return int(match[1]) * 1024
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def cuda_peak() -> int | None:
    """Return the peak of tensor memory on the GPU in bytes, or None without a GPU."""
    return torch.cuda.max_memory_allocated() if torch.cuda.is_available() else None
