"""Gains of the hand-written kernels, of recurrent loops and of attention in blocks, at the sizes of
the recipes.

    OMP_NUM_THREADS=1 python benchmarks/kernels.py [--rounds 3]

Each case is a training step (forward, backward) of a model of configs/model on a batch of a
recipe's size. Steps with the readable path and with the kernel alternate in one process. Columns:
CPU seconds of a step, medians; the median of the ratios of successive steps, kernel / readable; MiB
that a step adds to the process at its peak, and their ratio.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.nn.functional as F
import yaml

from dialog.models.attention import Attention
from dialog.models.seq2seq import Seq2Seq

MODELS = Path(__file__).parents[1] / "configs" / "model"
VOCABULARY = 8000
PADDING = 0
TARGET = 16


class Case(NamedTuple):
    """One kernel with the model and the batch of a recipe."""

    kernel: str
    model: str
    rows: int
    source: int
    dropout: float
    readable: Callable[[], contextlib.AbstractContextManager[Any]]  # replaces the kernel
    mixed: bool = False  # under autocast in bfloat16


def fused_float32() -> contextlib.AbstractContextManager[Any]:
    """Run recurrent layers in the fused kernel, whatever their width."""
    return mock.patch("dialog.models.recurrent.sequences.SMALLEST", 2**30)


CASES = (
    Case(
        "additive_loop",
        "lstm_bahdanau",
        64,
        48,
        0.0,
        lambda: mock.patch.object(Attention, "additive", None),
    ),
    Case(
        "additive_loop",
        "lstm_bahdanau",
        32,
        96,
        0.0,
        lambda: mock.patch.object(Attention, "additive", None),
    ),
    Case(
        "blockwise_attention",
        "transformer",
        8,
        1024,
        0.2,
        lambda: mock.patch(
            "dialog.models.attention.multi_head.would_fill_memory", return_value=False
        ),
    ),
    Case("recurrent_loop", "lstm_bahdanau", 64, 48, 0.0, fused_float32, mixed=True),
    Case("recurrent_loop", "lstm_bahdanau", 32, 96, 0.0, fused_float32, mixed=True),
    Case("recurrent_loop", "lstm_no_attention", 64, 48, 0.0, fused_float32, mixed=True),
)


def step_of(case: Case) -> Callable[[], None]:
    """Return a training step on one batch."""
    torch.manual_seed(1)
    settings = yaml.safe_load((MODELS / f"{case.model}.yaml").read_text(encoding="utf-8"))
    del settings["loss"]
    model = Seq2Seq(VOCABULARY, padding=PADDING, **{**settings, "dropout": case.dropout}).train()
    source = torch.randint(1, VOCABULARY, (case.rows, case.source))
    target = torch.randint(1, VOCABULARY, (case.rows, TARGET + 1))

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=case.mixed):
            logits = model(source, source != PADDING, target[:, :-1])
        F.cross_entropy(logits.flatten(0, 1).float(), target[:, 1:].flatten()).backward()
        model.zero_grad(set_to_none=True)

    return step


def memory(name: str) -> int:
    """Return a value in bytes of /proc/self/status."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def measure(step: Callable[[], None]) -> tuple[float, float]:
    """Return CPU seconds and the bytes that the step adds at its peak."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # resets the peak
    resident = memory("VmRSS")
    start = time.process_time()
    step()
    return time.process_time() - start, memory("VmHWM") - resident


def row(case: Case, rounds: int) -> str:
    """Measure a case; return its line of the table."""
    step = step_of(case)
    readable = []
    kernel = []
    for _ in range(rounds + 1):
        with case.readable():
            readable.append(measure(step))
        kernel.append(measure(step))
    pairs = list(zip(readable[1:], kernel[1:], strict=True))  # the first round is warm-up
    seconds = [statistics.median(side[0] for side in sides) for sides in zip(*pairs, strict=True)]
    peaks = [
        statistics.median(side[1] for side in sides) / 2**20 for sides in zip(*pairs, strict=True)
    ]
    ratio = statistics.median(fast[0] / slow[0] for slow, fast in pairs)
    sizes = f"{case.kernel} | {case.model} | {case.rows} x {case.source}"
    times = f"{seconds[0]:.2f} | {seconds[1]:.2f} | {ratio:.2f}"
    return f"| {sizes} | {times} | {peaks[0]:,.0f} | {peaks[1]:,.0f} | {peaks[1] / peaks[0]:.2f} |"


def main() -> None:
    """Print a row for each case."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="name of a kernel")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "| kernel | model | rows x source | readable s | kernel s | ratio | readable MiB | kernel"
        " MiB | ratio |"
    )
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for case in CASES:
        if options.only in case.kernel:
            print(row(case, options.rounds), flush=True)


if __name__ == "__main__":
    main()
