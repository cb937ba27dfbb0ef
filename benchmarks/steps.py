"""Training steps of both families against the length of the source: time, memory, and share of what the machine allows.

    python benchmarks/steps.py [--families lstm,transformer] [--sources 32,128] [--variants default,plain] ...

prints a Markdown table of `DialogModule`'s forward and backward pass, clipping and optimizer step, without a trainer.
S-LSTM reads in both directions (2 x 256), says with 512, embeddings of 256 and additive attention of 512; S-Transformer
has 3 + 3 layers of 256, 4 heads, 1,024 inside; 8,000 pieces, dropout and label smoothing 0.1, AdamW.

Columns: milliseconds a step, median, and of a CPU's time (all threads; what else runs does not count); real tokens of
source and target a second; MiB at the peak (on a CPU of the whole process, on a GPU of its tensors); share of the
speed of large matrix products in the same precision. With one thread on a CPU the last two are by its time. On a CPU
each figure is of processes of their own, in which variants take turns `--rounds` times; on a GPU all share one.
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

from dialog.data.batching import Batch, collate
from dialog.data.tokenizers.tokenizer import PAD
from dialog.models.attention import Attention, multi_head
from dialog.models.seq2seq import Seq2Seq
from dialog.profiling.flops import forward_flops
from dialog.training.module import DialogModule
from dialog.training.optimization.allocator import keep_freed_memory

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
    """What is measured."""

    family: str
    source: int
    target: int
    rows: int
    precision: str
    variant: str


class Found(NamedTuple):
    """What came out."""

    wall: list[float]  # seconds of each step
    cpu: list[float]
    tokens: float  # real ones a step
    flops: float
    peak: float  # bytes


class Bare(DialogModule):
    """A module that no trainer listens to."""

    def log(self, *_: object, **__: object) -> None:
        """Not measured here."""


# ------------------------------------------------------------------ variants


@contextlib.contextmanager
def default(module: DialogModule) -> Iterator[None]:
    """As a run trains."""
    keep_freed_memory()
    yield


@contextlib.contextmanager
def returning(module: DialogModule) -> Iterator[None]:
    """Freed memory goes back to the system, as the C library likes it."""
    yield


@contextlib.contextmanager
def plain(module: DialogModule) -> Iterator[None]:
    """A recurrent decoder asks its attention at each step, and autograd finds the gradients."""
    keep_freed_memory()
    with mock.patch.object(Attention, "additive", None):
        yield


@contextlib.contextmanager
def compiled(module: DialogModule) -> Iterator[None]:
    """Encoder and decoder compiled, for every shape anew."""
    keep_freed_memory()
    for part in (module.model.encoder, module.model.decoder):
        part.compile()
    yield


@contextlib.contextmanager
def unblocked(module: DialogModule) -> Iterator[None]:
    """A Transformer holds all attention weights of a layer."""
    keep_freed_memory()
    with mock.patch.object(multi_head, "would_fill_memory", return_value=False):
        yield


VARIANTS = {each.__name__: each for each in (default, returning, plain, compiled, unblocked)}


# ------------------------------------------------------------------ one case


def module_of(family: str) -> DialogModule:
    """A module in training, its weights drawn from seed 1."""
    torch.manual_seed(1)
    model = Seq2Seq(VOCABULARY, padding=PAD, embedding_size=EMBEDDING, dropout=0.1, **FAMILIES[family])
    loss = {"name": "cross_entropy", "label_smoothing": 0.1}
    return Bare(model, padding=PAD, optimizer={"name": "adamw"}, loss=loss).train()


def batch_of(case: Case, device: str) -> Batch:
    """Sources and targets of up to so many tokens, of which 5 in a hundred are padding."""

    def ids(longest: int) -> list[list[int]]:
        lengths = torch.randint(max(1, round(0.9 * longest)), longest + 1, (case.rows,))
        lengths[0] = longest
        return [torch.randint(10, VOCABULARY, (int(length),)).tolist() for length in lengths]

    batch = collate(list(zip(ids(case.source), ids(case.target + 1), strict=True)), range(case.rows))
    return Batch(*(each.to(device) if isinstance(each, torch.Tensor) else each for each in batch))


def stepper(module: DialogModule, precision: str, device: str) -> Callable[[Batch], None]:
    """One step of training."""
    if precision.endswith("-true"):
        module.to(DTYPES[precision])
    module.to(device)
    made: Any = module.configure_optimizers()
    optimizer, parameters = made["optimizer"], list(module.model.parameters())
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


def measure(case: Case, device: str, steps: int, warm_up: int) -> Found:
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
    tokens = sum(each.source_tokens + each.target_tokens for each in batches) / len(batches)
    on_cpu = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return Found(wall, cpu, tokens, flops, torch.cuda.max_memory_allocated() if device == "cuda" else on_cpu)


def bound(precision: str, device: str, clock: Clock, repeats: int = 10) -> float:
    """FLOPs a second of large matrix products, the best of some."""
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


def alone(case: Case, options: argparse.Namespace) -> Found:
    """Measure in a process of its own."""
    settings = ["--steps", str(options.steps), "--warm-up", str(options.warm_up), "--threads", str(options.threads)]
    command = [sys.executable, __file__, "--device", options.device, *settings, "--one", json.dumps(case)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Found(*json.loads(done.stdout))


def together(found: list[Found]) -> Found:
    """The rounds of a case as one."""
    wall, cpu = ([time for each in found for time in getattr(each, name)] for name in ("wall", "cpu"))
    return Found(wall, cpu, found[0].tokens, found[0].flops, max(each.peak for each in found))


def row(case: Case, found: Found, speed: float, clock: Clock) -> str:
    """A line of the table."""
    wall, cpu = statistics.median(found.wall), statistics.median(found.cpu)
    taken = cpu if clock is time.process_time else wall
    numbers = f"{1e3 * wall:.1f} | {1e3 * cpu:.1f} | {found.tokens / taken:,.0f} | {found.peak / 2**20:,.0f}"
    where = f"{case.family} | {case.source} | {case.target} | {case.rows} | {case.precision} | {case.variant}"
    return f"| {where} | {numbers} | {found.flops / taken / speed:.0%} |"


def chosen() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default="lstm,transformer", help=", ".join(FAMILIES))
    parser.add_argument("--sources", default="32,128,512,2048", help="lengths in tokens")
    parser.add_argument("--target", type=int, default=16, help="length in tokens; everyday replies have 15 in the mean")
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
    """Print a row for each case."""
    options = chosen()
    torch.set_num_threads(options.threads)
    if options.one:
        found = measure(Case(*json.loads(options.one)), options.device, options.steps, options.warm_up)
        print(json.dumps(found))
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
                    found = {case: measure(case, "cuda", options.steps, options.warm_up) for case in cases}
                else:
                    rounds = [[alone(case, options) for case in cases] for _ in range(options.rounds)]
                    found = {case: together([each[at] for each in rounds]) for at, case in enumerate(cases)}
                for case in cases:
                    print(row(case, found[case], speed, clock), flush=True)


if __name__ == "__main__":
    main()
