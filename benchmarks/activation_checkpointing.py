"""Measure time and peak memory of a Transformer's forward and backward pass with and without activation checkpointing.

Each figure comes from a separate process on one thread; times are medians.
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
    """Return the seconds of one pass at a length, and its peak memory in MiB above the start."""
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
    """Print one row per length."""
    titles = ("tokens", "without s", "with s", "ratio", "without MiB", "with MiB")
    print(" ".join(f"{title:>12}" for title in titles))
    for length in LENGTHS:
        results = []
        for saves in (False, True):
            command = [sys.executable, __file__, str(length), str(int(saves))]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            results.append(json.loads(done.stdout))
        (fast, much), (slow, little) = results
        figures = (f"{ROWS} x {length}", f"{fast:.3f}", f"{slow:.3f}", f"{slow / fast:.2f}")
        print(" ".join(f"{cell:>12}" for cell in (*figures, f"{much:.0f}", f"{little:.0f}")), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]), saves=sys.argv[2] == "1")))
    else:
        main()
