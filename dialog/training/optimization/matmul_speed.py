"""Speed of matrix products of this processor, measured once and kept in the user's cache."""

from __future__ import annotations

import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch

from dialog.atomic import write_json
from dialog.errors import UserError
from dialog.json_files import read_json
from dialog.paths import cache
from dialog.training.optimization.allocator import bound_kernel_caches

SIZES = (512, 512, 2048)
"""Rows, inner size and columns of the products: the gates of an LSTM of 512 over a batch."""
ROUNDS = 8
SECONDS = 0.01
"""Time spent on each type in a round."""


class MatmulSpeed(NamedTuple):
    """FLOP/s of matrix products by type."""

    float32: float
    bfloat16: float


def matmul_speed() -> MatmulSpeed:
    """Return the speed of this processor; measured if the cache lacks it for this processor,
    threads and torch.
    """
    path = cache() / "matmul-speed.json"
    name = f"{processor()}, {torch.get_num_threads()} threads, {torch.__version__}"
    kept: dict[str, Any] = {}
    with suppress(UserError):  # missing or damaged
        kept = read_json(path)
    with suppress(KeyError, TypeError):
        return MatmulSpeed(**kept[name])
    bound_kernel_caches()  # these may be the first products of a process that will train
    speed = _measure()
    with suppress(OSError):  # without a cache it is measured each time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {**kept, name: speed._asdict()})
    return speed


def _measure() -> MatmulSpeed:
    """Measure the types in turns, so that a burst of other work does not slow only one; the highest
    speeds count.
    """
    rounds = [MatmulSpeed(_speed(torch.float32), _speed(torch.bfloat16)) for _ in range(ROUNDS)]
    return MatmulSpeed(*map(max, zip(*rounds, strict=True)))


def _speed(dtype: torch.dtype) -> float:
    """Return FLOP/s of the fastest product of one type."""
    rows, inner, columns = SIZES
    left = torch.ones(rows, inner, dtype=dtype)
    right = torch.ones(inner, columns, dtype=dtype)
    torch.mm(left, right)  # the first one prepares the kernel
    best = float("inf")
    until = time.perf_counter() + SECONDS
    while (began := time.perf_counter()) < until:
        torch.mm(left, right)
        best = min(best, time.perf_counter() - began)
    return 2 * rows * inner * columns / best


def processor() -> str:
    """Return the model name of the processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
