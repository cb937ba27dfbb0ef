"""Compare projection and loss in chunks with all logits at once: time and peak memory of forward and backward.

Each figure comes from a separate process on one thread; times are medians. Run: python benchmarks/loss_chunks.py
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time

import torch

from dialog.data.tokenizers.tokenizer import PAD
from dialog.models.heads import Decoded, VocabularyHead
from dialog.training.losses import CrossEntropy, chunks
from dialog.training.step import RealPositions, loss_sums

SIZE = 512
REPEATS = 5
CASES = [(tokens, vocabulary) for tokens in (4096, 960) for vocabulary in (8000, 32000)]


def measure(tokens: int, vocabulary: int, *, whole: bool) -> tuple[float, float]:
    """Return the seconds of a step, and its peak memory in MiB above the start."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if whole:
        chunks.CHUNK = sys.maxsize
    head, loss = VocabularyHead(vocabulary, SIZE), CrossEntropy(label_smoothing=0.1)
    outputs = torch.randn(tokens, SIZE, requires_grad=True)
    targets = torch.randint(PAD + 1, vocabulary, (tokens,))
    nothing = outputs.detach()[:, :0]
    real = RealPositions((Decoded(outputs, outputs, nothing, nothing.long()),), targets, None)
    head.weight.grad = torch.zeros_like(head.weight)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        (loss_sums(head, loss, real).objective / tokens).backward()
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return statistics.median(seconds[1:]), peak / 1024


def main() -> None:
    """Print one row per case."""
    titles = ("tokens", "vocabulary", "whole s", "chunks s", "ratio", "whole MiB", "chunks MiB")
    print(" ".join(f"{title:>10}" for title in titles))
    for tokens, vocabulary in CASES:
        results = []
        for whole in (True, False):
            command = [sys.executable, __file__, str(tokens), str(vocabulary), str(int(whole))]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            results.append(json.loads(done.stdout))
        (slow, much), (fast, little) = results
        figures = (str(tokens), str(vocabulary), *(f"{seconds:.3f}" for seconds in (slow, fast)), f"{fast / slow:.2f}")
        print(" ".join(f"{cell:>10}" for cell in (*figures, f"{much:.0f}", f"{little:.0f}")), flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]), whole=sys.argv[3] == "1")))
    else:
        main()
