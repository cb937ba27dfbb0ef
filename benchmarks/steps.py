"""Measure training steps of both families by source length: time, memory, and share of the machine's bound.

    python benchmarks/steps.py [--families lstm,transformer] [--sources 32,128] [--variants default,plain] ...

Print a Markdown table of `DialogModule`'s forward and backward pass, clipping and optimizer step, without a Trainer.
S-LSTM: bidirectional encoder 2 x 256, decoder 512, embeddings 256, additive attention 512. S-Transformer: 3 + 3 layers
of 256, 4 heads, feed-forward 1,024. Both: 8,000 pieces, dropout and label smoothing 0.1, AdamW.

Columns: median milliseconds per step, wall-clock and CPU time (all threads); real source and target tokens per second;
peak MiB (on a CPU of the process, on a GPU of its allocator); share of the speed of large matrix products in the same
precision. With one CPU thread, speed and share use CPU time. On a CPU every figure comes from separate processes, in
which variants take turns `--rounds` times; on a GPU all share one process.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import torch
from torch import nn

from dialog.analysis.flops import forward_flops
from dialog.data.batching import Batch, collate
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD
from dialog.models.attention import Attention, multi_head
from dialog.models.seq2seq import Seq2Seq
from dialog.training.module import DialogModule
from dialog.training.optimization.allocator import tune_process

VOCABULARY, EMBEDDING, CLIP = 8000, 256, 1.0
LAYERS = {"name": "transformer", "layers": 3, "heads": 4, "feed_forward_size": 1024}
FAMILIES: dict[str, dict[str, Any]] = {
    "lstm": {
        "encoder": {"name": "lstm", "size": 512},
        "decoder": {"name": "lstm", "size": 512, "attention": {"name": "additive", "size": 512}},
    },
    "lstm2": {
        "encoder": {"name": "lstm", "size": 512, "layers": 2},
        "decoder": {"name": "lstm", "size": 512, "layers": 2, "attention": {"name": "additive", "size": 512}},
    },
    "gru": {
        "encoder": {"name": "gru", "size": 512},
        "decoder": {"name": "gru", "size": 512, "attention": {"name": "additive", "size": 512}},
    },
    "transformer": {"encoder": LAYERS, "decoder": LAYERS},
}
MIXED = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
DTYPES = {"32-true": torch.float32, "bf16-true": torch.bfloat16, **MIXED}


Clock = Callable[[], float]


class Case(NamedTuple):
    """One measurement."""

    family: str
    source: int
    target: int
    rows: int
    precision: str
    variant: str


class Timing(NamedTuple):
    """Times, tokens and memory of the steps of a case."""

    wall: list[float]  # seconds of each step
    cpu: list[float]
    tokens: float  # real tokens per step
    flops: float
    peak: float  # bytes


class Bare(DialogModule):
    """A module without a trainer."""

    def log(self, *_: object, **__: object) -> None:
        """Discard the value."""


# ------------------------------------------------------------------ variants


@contextlib.contextmanager
def default(module: DialogModule) -> Iterator[None]:
    """Train as a run does."""
    tune_process()
    yield


@contextlib.contextmanager
def returning(module: DialogModule) -> Iterator[None]:
    """Return freed memory to the system, the C library's default."""
    yield


@contextlib.contextmanager
def plain(module: DialogModule) -> Iterator[None]:
    """Use the readable recurrent loop; autograd computes the gradients."""
    tune_process()
    with mock.patch.object(Attention, "additive", None):
        yield


@contextlib.contextmanager
def compiled(module: DialogModule) -> Iterator[None]:
    """Compile encoder and decoder, once per shape."""
    tune_process()
    for part in (module.model.encoder, module.model.decoder):
        part.compile()
    yield


@contextlib.contextmanager
def unblocked(module: DialogModule) -> Iterator[None]:
    """Keep all attention weights of a Transformer layer in memory."""
    tune_process()
    with mock.patch.object(multi_head, "would_fill_memory", return_value=False):
        yield


VARIANTS = {variant.__name__: variant for variant in (default, returning, plain, compiled, unblocked)}


# ------------------------------------------------------------------ one case


def module_of(family: str) -> DialogModule:
    """Build a module in training mode from seed 1."""
    torch.manual_seed(1)
    model = Seq2Seq(VOCABULARY, padding=PAD, embedding_size=EMBEDDING, dropout=0.1, **FAMILIES[family])
    loss = {"name": "cross_entropy", "label_smoothing": 0.1}
    return Bare(model, padding=PAD, optimizer={"name": "adamw"}, loss=loss).train()


def batch_of(case: Case, device: str) -> Batch:
    """Draw a batch whose sources and targets have about 5 % padding."""

    def ids(longest: int) -> list[list[int]]:
        lengths = torch.randint(max(1, round(0.9 * longest)), longest + 1, (case.rows,))
        lengths[0] = longest
        return [torch.randint(10, VOCABULARY, (int(length),)).tolist() for length in lengths]

    targets = [[BOS, *target, EOS] for target in ids(case.target - 1)]
    batch = collate(list(zip(ids(case.source), targets, strict=True)), range(case.rows))
    return Batch(*(field.to(device) if isinstance(field, torch.Tensor) else field for field in batch))


def stepper(module: DialogModule, precision: str, device: str) -> Callable[[Batch], None]:
    """Return a function that trains one step."""
    if precision.endswith("-true"):
        module.to(DTYPES[precision])
    module.to(device)
    parts: Any = module.configure_optimizers()
    optimizer, parameters = parts["optimizer"], list(module.model.parameters())
    scaler = torch.amp.GradScaler(device, enabled=precision == "16-mixed")

    def step(batch: Batch) -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=MIXED.get(precision, torch.bfloat16), enabled=precision in MIXED):
            loss = module.training_step(batch, 0)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(parameters, CLIP)
        scaler.step(optimizer)
        scaler.update()

    return step


def measure(case: Case, device: str, steps: int, warm_up: int) -> Timing:
    """Time the steps of a case."""
    module = module_of(case.family)
    flops = 3 * case.rows * forward_flops(module.eval().model, case.source, case.target)  # backward is twice forward
    batches = [batch_of(case, device) for _ in range(4)]
    wall, cpu = [], []
    with VARIANTS[case.variant](module.train()):
        step = stepper(module, case.precision, device)
        for count in range(warm_up + steps):
            if count == warm_up and device == "cuda":
                torch.cuda.reset_peak_memory_stats()
            began = time.perf_counter(), time.process_time()
            step(batches[count % len(batches)])
            if device == "cuda":
                torch.cuda.synchronize()
            if count >= warm_up:
                wall.append(time.perf_counter() - began[0])
                cpu.append(time.process_time() - began[1])
    tokens = sum(batch.source_tokens + batch.target_tokens for batch in batches) / len(batches)
    on_cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Timing(wall, cpu, tokens, flops, torch.cuda.max_memory_allocated() if device == "cuda" else on_cpu)


def bound(precision: str, device: str, clock: Clock, repeats: int = 10) -> float:
    """Return the FLOPs per second of large matrix products, the best of several."""
    size = 8192 if device == "cuda" else 1024
    left, right = (torch.randn(size, size, device=device, dtype=DTYPES[precision]) for _ in range(2))
    best = float("inf")
    for _ in range(repeats):
        began = clock()
        left @ right
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, clock() - began)
    return 2 * size**3 / best


# ------------------------------------------------------------------ the table


def alone(case: Case, options: argparse.Namespace) -> Timing:
    """Measure in a separate process."""
    settings = ["--steps", str(options.steps), "--warm-up", str(options.warm_up), "--threads", str(options.threads)]
    command = [sys.executable, __file__, "--device", options.device, *settings, "--one", json.dumps(case)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Timing(*json.loads(done.stdout))


def pool(rounds: list[Timing]) -> Timing:
    """Pool the rounds of a case."""
    wall, cpu = ([time for timing in rounds for time in getattr(timing, name)] for name in ("wall", "cpu"))
    return Timing(wall, cpu, rounds[0].tokens, rounds[0].flops, max(timing.peak for timing in rounds))


def row(case: Case, timing: Timing, speed: float, clock: Clock) -> str:
    """Format one row of the table."""
    wall, cpu = statistics.median(timing.wall), statistics.median(timing.cpu)
    taken = cpu if clock is time.process_time else wall
    numbers = f"{1e3 * wall:.1f} | {1e3 * cpu:.1f} | {timing.tokens / taken:,.0f} | {timing.peak / 2**20:,.0f}"
    where = f"{case.family} | {case.source} | {case.target} | {case.rows} | {case.precision} | {case.variant}"
    return f"| {where} | {numbers} | {timing.flops / taken / speed:.0%} |"


def parse_arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default="lstm,transformer", help=", ".join(FAMILIES))
    parser.add_argument("--sources", default="32,128,512,2048", help="lengths in tokens")
    parser.add_argument(
        "--target", type=int, default=16, help="length in tokens; everyday responses have 15 on average"
    )
    parser.add_argument("--rows", type=int, default=64, help="pairs in a batch")
    parser.add_argument("--precisions", default="32-true", help=", ".join(DTYPES))
    parser.add_argument("--variants", default="default", help=", ".join(VARIANTS))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warm-up", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2, help="on a CPU")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Print one row per case."""
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    if options.one:
        print(json.dumps(measure(Case(*json.loads(options.one)), options.device, options.steps, options.warm_up)))
        return
    on_gpu = options.device == "cuda"
    clock = time.process_time if not on_gpu and options.threads == 1 else time.perf_counter
    name = torch.cuda.get_device_name() if on_gpu else f"CPU, {options.threads} threads"
    print(f"torch {torch.__version__}, {name}, {options.rounds if not on_gpu else 1} x {options.steps} steps\n")
    print("| family | source | target | rows | precision | variant | ms | CPU ms | tokens/s | MiB | of bound |")
    print("| --- | ---: | ---: | ---: | --- | --- | ---: | ---: | ---: | ---: | ---: |")
    variants = options.variants.split(",")
    for precision in options.precisions.split(","):
        speed = bound(precision, options.device, clock)
        for family in options.families.split(","):
            for source in map(int, options.sources.split(",")):
                cases = [Case(family, source, options.target, options.rows, precision, variant) for variant in variants]
                if on_gpu:
                    timings = {case: measure(case, "cuda", options.steps, options.warm_up) for case in cases}
                else:
                    rounds = [[alone(case, options) for case in cases] for _ in range(options.rounds)]
                    timings = {case: pool([timing[at] for timing in rounds]) for at, case in enumerate(cases)}
                for case in cases:
                    print(row(case, timings[case], speed, clock), flush=True)


if __name__ == "__main__":
    main()
