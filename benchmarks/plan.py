"""Measure the batch plan of an epoch by the number of examples: seconds, memory and padding.

    python benchmarks/plan.py [EXAMPLES ...]

Lengths are drawn like those of three turns and a response of everyday conversation and are stored as `prepare` writes
them. Each row comes from a separate process. Columns: seconds to sort the lengths by class (once, during preparation),
its peak memory in MiB without mapped files; seconds and MiB to plan a shuffled epoch for one of 8 processes;
microseconds per batch; batches over all processes; padding as a percentage of their tokens, at most.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dialog.data.store.length_classes import read_classes, write_classes
from dialog.data.store.manifest import ARRAYS, array_file
from dialog.data.store.plan import Plan

EXAMPLES = (10**6, 10**7, 10**8)
BUDGET = 8192
WORLD = 8
CHUNK = 10**6
READ = 2000
COLUMNS = ("sort s", "sort MiB", "plan s", "plan MiB", "us / batch", "batches", "padding %")


def write_lengths(folder: Path, count: int) -> int:
    """Write lengths with long tails, drawn a million at a time and repeated; return their sum."""
    random = np.random.default_rng(0)
    total = 0
    with array_file(folder, "train", "lengths").open("wb") as file:
        for start in range(0, count, CHUNK):
            size = min(CHUNK, count - start)
            if start % (10 * CHUNK) == 0:
                drawn = lengths(random)
            np.roll(drawn[:size], start, axis=0).tofile(file)
            total += int(drawn[:size].sum())
    return total


def lengths(random: np.random.Generator) -> NDArray[Any]:
    """Draw the source and target lengths of a million examples."""
    turns = np.clip(random.lognormal(2.4, 0.7, size=(CHUNK, 4)), 1, 200).astype(np.int64)
    context_turns = random.integers(0, 8, size=CHUNK)
    sources = sum(np.where(context_turns > turn, turns[:, turn] + 1, 0) for turn in range(3)) + 1
    return np.column_stack([np.minimum(sources, 256), turns[:, 3] + 1]).astype(ARRAYS["lengths"])


def measured(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return seconds, peak MiB and result."""
    tracemalloc.start()
    began = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - began
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    return seconds, peak, result


def measure(count: int) -> list[float]:
    """Return one row."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        real = write_lengths(folder, count)
        sort_seconds, sort_memory, _ = measured(lambda: write_classes(folder, "train"))
        plan_seconds, plan_memory, plan = measured(lambda: planned(folder))
        began = time.perf_counter()
        read = sum(1 for _ in islice(plan.batches(len(plan) // 2), READ))
        microseconds = (time.perf_counter() - began) / read * 1e6
        padding = 100 * (1 - real / plan.padded)
        return [sort_seconds, sort_memory, plan_seconds, plan_memory, microseconds, len(plan) * WORLD, padding]


def planned(folder: Path) -> Plan:
    """Plan an epoch of the last process."""
    classes = read_classes(folder, "train")
    return Plan(classes, budget=BUDGET, seed=1, epoch=1, shuffle=True, rank=WORLD - 1, world=WORLD)


def main() -> None:
    """Print one row per number of examples."""
    print(f"{'examples':>12} " + " ".join(f"{title:>10}" for title in COLUMNS))
    for count in map(int, sys.argv[1:] or EXAMPLES):
        done = subprocess.run(
            [sys.executable, __file__, "--one", str(count)], capture_output=True, text=True, check=True
        )
        figures = " ".join(f"{cell:>10,.0f}" if cell > 1000 else f"{cell:>10.2f}" for cell in json.loads(done.stdout))
        print(f"{count:>12,} {figures}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(int(sys.argv[2]))))
    else:
        main()
