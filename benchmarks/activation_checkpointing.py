"""Activation checkpointing against none: time and peak memory of a Transformer's forward and backward pass.

Each figure is of a process of its own, on one thread; times are medians.
Run: python benchmarks/activation_checkpointing.py
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time

import torch

from dialog.models.seq2seq import Seq2Seq

SIZE, LAYERS, ROWS, VOCABULARY = 256, 4, 16, 1000
REPEATS = 3
LENGTHS = (64, 256)


def measure(length: int, *, saves: bool) -> tuple[float, float]:
    """Seconds of a pass over sources and targets of a length, and MiB at its peak beyond what stands before it."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    part = {"name": "transformer", "layers": LAYERS, "heads": 4, "feed_forward_size": 4 * SIZE}
    parts = {"encoder": part, "decoder": part}
    model = Seq2Seq(VOCABULARY, padding=0, embedding_size=SIZE, dropout=0.1, activation_checkpointing=saves, **parts)
    source, target = torch.randint(1, VOCABULARY, (2, ROWS, length))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        model(source, source != 0, target).logsumexp(-1).mean().backward()
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return statistics.median(seconds[1:]), peak / 1024


def main() -> None:
    """Print a row for each length."""
    titles = ("tokens", "without s", "with s", "ratio", "without MiB", "with MiB")
    print(" ".join(f"{title:>12}" for title in titles))
    for length in LENGTHS:
        found = []
        for saves in (False, True):
            command = [sys.executable, __file__, str(length), str(int(saves))]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found.append(json.loads(done.stdout))
        (fast, much), (slow, little) = found
        figures = (f"{ROWS} x {length}", f"{fast:.3f}", f"{slow:.3f}", f"{slow / fast:.2f}")
        print(" ".join(f"{each:>12}" for each in (*figures, f"{much:.0f}", f"{little:.0f}")), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]), saves=sys.argv[2] == "1")))
    else:
        main()
