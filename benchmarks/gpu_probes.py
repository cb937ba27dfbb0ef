"""Measure one thing on a GPU: the probes of gpu.sh. Without CUDA, the same code at toy sizes.

    python benchmarks/gpu_probes.py PROBE [MODEL ...]

Each figure is a line ``RESULT ...``. Models: lstm and transformer of DailyDialog's size, large_lstm
and large_transformer of width 1,024, quickstart_lstm and quickstart_transformer. A failed check is
an exception. Times of a step are means over `STEPS` steps after `WARM_UP`; "host" is the time until
the last kernel was launched, "busy" the time of the kernels.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import dialog
from dialog.analysis.flops import training_flops
from dialog.data.batching import Batch, collate
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD
from dialog.models.attention import Attention
from dialog.models.seq2seq import Seq2Seq
from dialog.training.optimization.allocator import tune_process

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
STEPS = 20 if CUDA else 1
WARM_UP = 5 if CUDA else 0
DENSE_BFLOAT16 = 989e12
"""Peak of an H100 or H200, in operations a second, without sparsity."""
FIRST_WORD = 6
"""Smallest token that is no special one."""


class Size(NamedTuple):
    """Arguments of a network, and the vocabulary and shape of its batch."""

    model: dict[str, Any]
    vocabulary: int
    rows: int
    source: int
    target: int


def lstm(embedding: int, size: int, layers: int = 1) -> dict[str, Any]:
    """Return the arguments of an LSTM with Bahdanau attention."""
    return {
        "embedding_size": embedding,
        "encoder": {"name": "lstm", "size": size, "layers": layers},
        "decoder": {
            "name": "lstm",
            "size": size,
            "layers": layers,
            "attention": {"name": "additive", "size": size},
        },
    }


def transformer(width: int, layers: int, heads: int, feed_forward: int) -> dict[str, Any]:
    """Return the arguments of a Transformer."""
    part = {
        "name": "transformer",
        "layers": layers,
        "heads": heads,
        "feed_forward_size": feed_forward,
    }
    return {"embedding_size": width, "encoder": part, "decoder": part}


SIZES = {
    "lstm": Size(lstm(256, 640), 8000, 57, 51, 21),
    "transformer": Size(transformer(256, 4, 4, 1024), 8000, 57, 51, 21),
    "large_lstm": Size(lstm(512, 1024, 2), 32_000, 552, 50, 24),
    "large_transformer": Size(transformer(1024, 6, 16, 4096), 32_000, 552, 50, 24),
    "quickstart_lstm": Size(lstm(128, 168), 1000, 22, 40, 7),
    "quickstart_transformer": Size(transformer(128, 2, 8, 256), 1000, 22, 40, 7),
}
TOY = {"lstm": lstm(16, 16), "transformer": transformer(16, 1, 2, 16)}
PAIR = ("lstm", "transformer")


def size_of(name: str) -> Size:
    """Return a size, or its toy on a CPU."""
    return SIZES[name] if CUDA else Size(TOY[name.rpartition("_")[2]], 60, 4, 9, 5)


# ------------------------------------------------------------------ a step


def random_batch(size: Size, seed: int = 0, device: str = DEVICE) -> Batch:
    """Return a batch of random words whose lengths are 90 to 100 % of the longest."""
    generator = torch.Generator().manual_seed(seed)

    def words(longest: int) -> list[int]:
        share = 0.9 + 0.1 * torch.rand((), generator=generator).item()
        count = max(1, int(share * longest))
        tokens: list[int] = torch.randint(
            FIRST_WORD, size.vocabulary, (count,), generator=generator
        ).tolist()
        return tokens

    pairs = [
        ([4, *words(size.source - 2), EOS], [BOS, *words(size.target - 1), EOS])
        for _ in range(size.rows)
    ]
    batch = collate(pairs, target_bytes=4 * size.rows * size.target)
    return batch._replace(
        source=batch.source.to(device),
        target=batch.target.to(device),
        turn_shape=(3, size.source),
    )


class Bare(dialog.DialogModule):
    """The module without a trainer."""

    def log(self, *_: object, **__: object) -> None:
        """Drop the value."""


class Training:
    """A network in training, and its optimizer."""

    def __init__(self, name: str, size: Size | None = None) -> None:
        torch.manual_seed(0)
        self.size = size or size_of(name)
        model = Seq2Seq(self.size.vocabulary, padding=PAD, **self.size.model)
        loss = {"name": "cross_entropy", "label_smoothing": 0.1}
        self.module = Bare(model.to(DEVICE).train(), padding=PAD, loss=loss)
        optimizers: Any = self.module.configure_optimizers()
        self.optimizer: torch.optim.Optimizer = optimizers["optimizer"]

    @property
    def model(self) -> Seq2Seq:
        """The network."""
        return self.module.model

    def objective(self, batch: Batch, precision: str = "bf16", step: int = 0) -> Tensor:
        """Return the mean over target tokens that a step minimises."""
        with cast(precision):
            objective, _ = self.module.step(self.model, batch, step)
        return objective / batch.target_tokens

    def step(self, batch: Batch, precision: str = "bf16") -> None:
        """Train a step."""
        self.optimizer.zero_grad()
        self.objective(batch, precision).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


def cast(precision: str) -> contextlib.AbstractContextManager[Any]:
    """Return the autocast of a precision; float32 on a CPU."""
    types = {"bf16": torch.bfloat16, "fp16": torch.float16}
    if precision not in types or not CUDA:
        return contextlib.nullcontext()
    return torch.autocast(DEVICE, types[precision])


def wait() -> None:
    """Wait for the device."""
    if CUDA:
        torch.cuda.synchronize()


def timed(call: Callable[[], object], steps: int = STEPS) -> tuple[float, float]:
    """Return milliseconds of a call, and those until its last kernel is launched."""
    for _ in range(WARM_UP):
        call()
    wait()
    start = time.perf_counter()
    for _ in range(steps):
        call()
    launched = time.perf_counter() - start
    wait()
    return 1e3 * (time.perf_counter() - start) / steps, 1e3 * launched / steps


def kernels(call: Callable[[], object]) -> tuple[int, float, str]:
    """Return kernels of a call, milliseconds of all, and the five longest."""
    from torch.profiler import ProfilerActivity, profile

    activity = ProfilerActivity.CUDA if CUDA else ProfilerActivity.CPU
    call()
    with profile(activities=[activity]) as profiler:
        call()
        wait()
    events = [
        event
        for event in profiler.key_averages()
        if "CUDA" in str(event.device_type) or (not CUDA and event.key.startswith("aten::"))
    ]
    milliseconds = {
        event.key: (event.self_device_time_total if CUDA else event.self_cpu_time_total) / 1e3
        for event in events
    }
    longest = sorted(milliseconds, key=lambda key: -milliseconds[key])[:5]
    listed = "; ".join(f"{key[:40]} {milliseconds[key]:.2f} ms" for key in longest)
    return sum(event.count for event in events), sum(milliseconds.values()), listed


def peak_gibibytes() -> float:
    """Return the largest memory of tensors since the last call."""
    if not CUDA:
        return 0.0
    peak = torch.cuda.max_memory_allocated() / 2**30
    torch.cuda.reset_peak_memory_stats()
    return peak


def result(*figures: object) -> None:
    """Print a result."""
    print("RESULT", *figures, flush=True)


# ------------------------------------------------------------------ probes of training


def speed(names: Sequence[str]) -> None:
    """Measure time, kernels, share of peak and memory of a step."""
    for name in names:
        training = Training(name)
        batch = random_batch(training.size)
        peak_gibibytes()
        milliseconds, host = timed(lambda one=training, on=batch: one.step(on))
        memory = peak_gibibytes()
        count, busy, longest = kernels(lambda one=training, on=batch: one.step(on))
        tokens = 1e3 * batch.target_tokens / milliseconds
        share = flops(training.model, batch) / (milliseconds / 1e3) / DENSE_BFLOAT16
        result(
            f"{name}: {milliseconds:.2f} ms a step, host {host:.2f}, busy {busy:.2f}, {count}"
            f" kernels, {tokens:,.0f} target tokens/s, {share:.2%} of peak, {memory:.2f} GiB"
        )
        result(f"{name}, longest: {longest}")


def flops(model: Seq2Seq, batch: Batch) -> float:
    """Return the operations of a step, from the first rows of a batch."""
    plain = copy.deepcopy(model).cpu().eval()
    sources = (batch.source != PAD).sum(1).tolist()[:8]
    targets = (batch.target[:, 1:] != PAD).sum(1).tolist()[:8]
    counts = [
        training_flops(plain, source, target)
        for source, target in zip(sources, targets, strict=True)
    ]
    return sum(counts) * len(batch.source) / len(counts)


def trainer(names: Sequence[str]) -> None:
    """Measure steps a second of the Trainer for each way of training: plain, graphs, compiled."""
    from dialog.config.compose import compose

    recipes = {"lstm": "quickstart/lstm_bahdanau", "transformer": "quickstart/transformer"}
    keys = ("graphs", "compile")
    known = compose("quickstart/transformer").recipe.trainer
    ways = [[f"trainer.{key}=false" for key in keys if hasattr(known, key)]]
    ways += [[f"trainer.{key}=true"] for key in keys if hasattr(known, key)]
    for name in names:
        for way in ways:
            result(name, " ".join(way) or "plain", trainer_speed(recipes[name], way))


def trainer_speed(recipe: str, settings: Sequence[str]) -> str:
    """Return the line on training that `dialog benchmark` prints for a recipe."""
    import subprocess
    import sys

    steps = ("60", "20") if CUDA else ("2", "1")
    own = [
        f"data.corpus.size={2000 if CUDA else 60}",
        f"trainer.accelerator={'gpu' if CUDA else 'cpu'}",
        f"trainer.precision={'bf16-mixed' if CUDA else '32-true'}",
        *settings,
    ]
    command = [sys.executable, "-m", "dialog", "benchmark", recipe, *own, "--steps", steps[0]]
    done = subprocess.run(
        [*command, "--warm-up", steps[1], "--no-generation"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return f"failed: {done.stderr.strip().splitlines()[-1]}"
    lines = [line for line in done.stdout.splitlines() if "tokens/s" in line]
    return " | ".join(line.strip() for line in lines)


def graph(names: Sequence[str]) -> None:
    """Measure a whole step as one CUDA graph at one shape: the most that graphs can give."""
    for name in names:
        training = Training(name)
        training.optimizer = torch.optim.AdamW(
            training.model.parameters(), lr=1e-4, fused=True, capturable=CUDA
        )
        batch = random_batch(training.size)
        eager, _ = timed(lambda one=training, on=batch: one.step(on))
        if not CUDA:
            result(f"{name}: eager {eager:.2f} ms; no graphs on a CPU")
            continue
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                training.step(batch)
        torch.cuda.current_stream().wait_stream(stream)
        captured = torch.cuda.CUDAGraph()
        training.optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(captured):
            training.step(batch)
        replayed, _ = timed(captured.replay)
        ratio = eager / replayed
        result(f"{name}: eager {eager:.2f} ms, graph {replayed:.2f} ms, ratio {ratio:.2f}")


def compiled(names: Sequence[str]) -> None:
    """Measure a step whose encoder and decoder are compiled, and the first step of another
    shape.
    """
    for name in names:
        training = Training(name)
        batch = random_batch(training.size)
        eager, _ = timed(lambda one=training, on=batch: one.step(on))
        start = time.perf_counter()
        for part in (training.model.encoder, training.model.decoder):
            part.compile(dynamic=True, backend="inductor" if CUDA else "eager")
        training.step(batch)
        first = time.perf_counter() - start
        later, _ = timed(lambda one=training, on=batch: one.step(on))
        size = training.size
        other = size._replace(rows=size.rows - 1, source=size.source - 2, target=size.target - 1)
        start = time.perf_counter()
        training.step(random_batch(other))
        wait()
        result(
            f"{name}: eager {eager:.2f} ms, compiled {later:.2f} ms, ratio {eager / later:.2f};"
            f" compiling {first:.0f} s, first step of another shape"
            f" {time.perf_counter() - start:.1f} s"
        )


def scaler(names: Sequence[str]) -> None:
    """Compare the loss after some steps in each precision with that in float32."""
    for name in names:
        losses = {precision: scaled_loss(name, precision) for precision in ("fp32", "bf16", "fp16")}
        result(f"{name}: {losses}")
        for precision, loss in losses.items():
            difference = abs(loss - losses["fp32"])
            # not finite fails too
            assert difference < 0.05 * losses["fp32"], f"{name} in {precision}"


def scaled_loss(name: str, precision: str) -> float:
    """Return the loss after `STEPS` steps with a gradient scaler for float16."""
    training = Training(name)
    scaling = torch.amp.GradScaler(DEVICE, enabled=CUDA and precision == "fp16")
    loss = torch.tensor(0.0)
    for step in range(STEPS + 1):
        training.optimizer.zero_grad()
        loss = training.objective(random_batch(training.size, seed=step % 3), precision, step)
        scaling.scale(loss).backward()
        scaling.unscale_(training.optimizer)
        nn.utils.clip_grad_norm_(training.model.parameters(), 1.0)
        scaling.step(training.optimizer)
        scaling.update()
    return loss.item()


def encoder_cells(_: Sequence[str]) -> None:
    """Measure the error of an LSTM encoder under bfloat16 autocast against float64, by length."""
    for length in (50, 400, 1000) if CUDA else (9,):
        size = Size(lstm(64, 128), 60, 4, length, 6)
        torch.manual_seed(0)
        model = Seq2Seq(size.vocabulary, padding=PAD, **size.model).eval()
        batch = random_batch(size, device="cpu")
        exact, _ = copy.deepcopy(model).double().start(batch.source, batch.source != PAD)
        source = batch.source.to(DEVICE)
        with torch.no_grad(), cast("bf16"):
            found, _ = copy.deepcopy(model).to(DEVICE).start(source, source != PAD)
        expected = exact.decoder.values
        difference = found.decoder.values.double().cpu() - expected
        error = (difference.norm() / expected.norm()).item()
        result(f"source of {length}: relative error {error:.1e}, {found.decoder.values.dtype}")
        assert error < 0.02


def loop(_: Sequence[str]) -> None:
    """Compare the hand-written attention loop with autograd of the plain one: time and gradient."""
    training = Training("lstm")
    batch = random_batch(training.size)

    def gradients() -> Tensor:
        training.module.zero_grad()
        training.objective(batch).backward()
        parts = [
            parameter.grad.flatten().float()
            for parameter in training.model.parameters()
            if parameter.grad is not None
        ]
        return torch.cat(parts)

    found = gradients()
    kernel, _ = timed(gradients)
    with mock.patch.object(Attention, "additive", None):
        expected = gradients()
        plain, _ = timed(gradients)
    error = ((found - expected).norm() / expected.norm()).item()
    result(f"kernel {kernel:.2f} ms, plain {plain:.2f} ms; gradients differ by {error:.1e}")
    assert error < 0.05


def source_length(names: Sequence[str]) -> None:
    """Measure time and memory of a step by the length of the source."""
    for name in names:
        for length in (128, 512, 2048) if CUDA else (9,):
            size = size_of(name)._replace(rows=8, source=length, target=32 if CUDA else 5)
            training = Training(name, size)
            batch = random_batch(size)
            peak_gibibytes()
            milliseconds, _ = timed(lambda one=training, on=batch: one.step(on), 4)
            result(f"{name}, source of {length}: {milliseconds:.1f} ms, {peak_gibibytes():.2f} GiB")


def attention_mask(_: Sequence[str]) -> None:
    """Measure scaled dot product attention with a padding mask, without one, and causal."""
    rows, heads, length, width = (552, 16, 50, 64) if CUDA else (2, 2, 9, 8)
    for tokens in (length, 16 * length):
        shape = (rows if tokens == length else max(1, rows // 64), heads, tokens, width)
        values = torch.randn(shape, device=DEVICE, dtype=torch.bfloat16, requires_grad=True)
        mask = (torch.arange(tokens, device=DEVICE) < tokens - 3).expand(shape[0], 1, 1, tokens)
        ways: dict[str, dict[str, Any]] = {
            "mask": {"attn_mask": mask},
            "none": {},
            "causal": {"is_causal": True},
        }
        for name, way in ways.items():

            def attend(on: Tensor = values, arguments: dict[str, Any] = way) -> None:
                F.scaled_dot_product_attention(on, on, on, **arguments).sum().backward()

            milliseconds, _ = timed(attend)
            result(f"{tokens} tokens, {name}: {milliseconds:.3f} ms")


def recurrent_kernels(_: Sequence[str]) -> None:
    """Measure cuDNN's LSTM by width and type: which it runs as one kernel, and whether one call for
    both directions is faster than two.
    """
    for width in (256, 320, 384) if CUDA else (8,):
        for dtype in (torch.bfloat16, torch.float16) if CUDA else (torch.float32,):
            inputs = torch.randn(64, 48, 256, device=DEVICE, dtype=dtype, requires_grad=True)
            times = []
            for both in (False, True):
                layer = nn.LSTM(256, width, batch_first=True, bidirectional=both)
                layer = layer.to(DEVICE, dtype)

                def run(one: nn.LSTM = layer, on: Tensor = inputs) -> None:
                    one(on)[0].float().sum().backward()

                times.append(timed(run)[0])
            result(f"{width} {dtype}: two calls {2 * times[0]:.2f} ms, one {times[1]:.2f} ms")


def seeds(_: Sequence[str]) -> None:
    """Measure five seeds as one stacked model by `torch.func.vmap`, against one after the other."""
    from torch.func import functional_call, grad, stack_module_state, vmap

    size = size_of("transformer")
    models = [Training("transformer").model for _ in range(5)]
    batch = random_batch(size)
    weights, _ = stack_module_state(list(models))

    def loss(parameters: dict[str, Tensor], source: Tensor, target: Tensor) -> Tensor:
        logits = functional_call(models[0], parameters, (source, source != PAD, target[:, :-1]))
        flat = logits.flatten(0, 1).float()
        return F.cross_entropy(flat, target[:, 1:].flatten(), ignore_index=PAD)

    one = {key: value[0].detach() for key, value in weights.items()}

    def single() -> None:
        with cast("bf16"):
            grad(loss)(one, batch.source, batch.target)

    def stacked() -> None:
        with cast("bf16"):
            vmap(grad(loss), in_dims=(0, None, None), randomness="different")(
                weights, batch.source, batch.target
            )

    try:
        alone, _ = timed(single, 4)
        five, _ = timed(stacked, 4)
    except RuntimeError as error:
        result(f"refused: {str(error).splitlines()[0]}")
        return
    ratio = 5 * alone / five
    result(f"one {alone:.2f} ms, five stacked {five:.2f} ms, ratio {ratio:.2f}")


class FewBatches:
    """A loader of four batches."""

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[Batch]:
        return iter([random_batch(size_of("transformer"), seed, "cpu") for seed in range(4)])


def sharded(_: Sequence[str]) -> None:
    """Compare the loss of sharded training on one rank with plain training."""
    import lightning

    from dialog.training.distributed.fsdp import FullyShardedStrategy

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    losses = {}
    for name, strategy in (("plain", "auto"), ("sharded", FullyShardedStrategy())):
        model = Training("transformer").model.cpu()
        runner = lightning.Trainer(
            accelerator="gpu" if CUDA else "cpu",
            devices=1,
            strategy=strategy,
            precision="bf16-mixed" if CUDA else "32-true",
            max_epochs=1,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            use_distributed_sampler=False,
            log_every_n_steps=1,
            inference_mode=False,
        )
        loader: Any = FewBatches()
        runner.fit(dialog.DialogModule(model, padding=PAD), loader)
        losses[name] = float(runner.callback_metrics["train/loss"])
    result(losses)
    assert abs(losses["sharded"] - losses["plain"]) < 0.02 * losses["plain"]


def checkpoint(_: Sequence[str]) -> None:
    """Measure how long training waits for a checkpoint of the large Transformer."""
    from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO

    training = Training("large_transformer")
    training.step(random_batch(training.size._replace(rows=4, source=9, target=5)))
    state: dict[str, Any] = {
        "state_dict": training.module.state_dict(),
        "optimizer_states": [training.optimizer.state_dict()],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run" / "checkpoints" / "last.ckpt"
        start = time.perf_counter()
        SafeCheckpointIO().save_checkpoint(state, path)
        seconds = time.perf_counter() - start
        result(f"{path.stat().st_size / 1e9:.2f} GB in {seconds:.1f} s")


# ------------------------------------------------------------------ probes of generation and peers


def generate(names: Sequence[str]) -> None:
    """Measure tokens a second of greedy search, and waits for the device a token."""
    from dialog.models.inference.prepare import prepare

    for name in names:
        for dtype in (torch.float32, torch.bfloat16):
            model = prepare(Training(name).model.eval().to(dtype))
            for rows in (1, 32, 256) if CUDA else (2,):
                length = 32 if CUDA else 4
                search = greedy_search(model, size_of(name)._replace(rows=rows), length)
                milliseconds, _ = timed(search, 3)
                tokens = 1e3 * rows * length / milliseconds
                result(f"{name} {dtype}, batch of {rows}: {tokens:,.0f} tokens/s")
                if CUDA and rows == 32:
                    result(f"{name} {dtype}: {waits(search) / length:.2f} waits a token")


def greedy_search(model: Seq2Seq, size: Size, length: int) -> Callable[[], object]:
    """Return a greedy search of as many tokens on a random batch."""
    from dialog.generation.constraints import Constraints
    from dialog.generation.network_step import NetworkStep
    from dialog.generation.searches.greedy import Greedy

    batch = random_batch(size)
    greedy = Greedy(
        constraints=Constraints(
            end=EOS, special=(PAD, BOS, 3, 4, 5), min_length=length, max_length=length
        )
    )
    step = NetworkStep((model,))

    def search() -> object:
        with torch.inference_mode():
            memory, state = step.start(batch.source, batch.source != PAD)
            prefix = batch.source.new_full((size.rows, 1), BOS)
            return greedy(step, prefix, memory, state, batch.source)

    return search


def waits(call: Callable[[], object]) -> int:
    """Return how often a call waits for the device."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return sum("synchron" in str(warning.message) for warning in caught)


def marian(_: Sequence[str]) -> None:
    """Compare a step with Marian of transformers, of equal size, on the same batch."""
    from transformers import MarianConfig, MarianMTModel

    training = Training("transformer")
    size = training.size
    part = size.model["encoder"]
    config = MarianConfig(
        vocab_size=size.vocabulary,
        d_model=size.model["embedding_size"],
        encoder_layers=part["layers"],
        decoder_layers=part["layers"],
        encoder_attention_heads=part["heads"],
        decoder_attention_heads=part["heads"],
        encoder_ffn_dim=part["feed_forward_size"],
        decoder_ffn_dim=part["feed_forward_size"],
        pad_token_id=PAD,
        decoder_start_token_id=BOS,
        eos_token_id=EOS,
        forced_eos_token_id=EOS,
        max_position_embeddings=128,
        attn_implementation="sdpa",
    )
    peer: Any = MarianMTModel(config).to(DEVICE).train()
    optimizer = torch.optim.AdamW(peer.parameters(), fused=True)
    batch = random_batch(size)
    labels = batch.target[:, 1:].masked_fill(batch.target[:, 1:] == PAD, -100)

    def step() -> None:
        optimizer.zero_grad()
        with cast("bf16"):
            outputs = peer(
                input_ids=batch.source,
                attention_mask=(batch.source != PAD).long(),
                decoder_input_ids=batch.target[:, :-1],
                labels=labels,
            )
        outputs.loss.backward()
        nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        optimizer.step()

    theirs, _ = timed(step)
    ours, _ = timed(lambda: training.step(batch))
    result(f"Marian {theirs:.2f} ms, dialog {ours:.2f} ms, ratio {theirs / ours:.2f}")


def bare_lstm(_: Sequence[str]) -> None:
    """Measure nn.LSTM encoder and decoder without attention: the bound of a recurrent model in
    cuDNN.
    """
    size = size_of("lstm")
    embedding_size = size.model["embedding_size"]
    width = size.model["encoder"]["size"]
    parts = nn.ModuleDict(
        {
            "embedding": nn.Embedding(size.vocabulary, embedding_size),
            "encoder": nn.LSTM(embedding_size, width // 2, batch_first=True, bidirectional=True),
            "decoder": nn.LSTM(embedding_size, width, batch_first=True),
            "head": nn.Linear(width, size.vocabulary),
        }
    ).to(DEVICE)
    optimizer = torch.optim.AdamW(parts.parameters(), fused=True)
    batch = random_batch(size)

    def step() -> None:
        optimizer.zero_grad()
        with cast("bf16"):
            encoded, _ = parts["encoder"](parts["embedding"](batch.source))
            decoded, _ = parts["decoder"](parts["embedding"](batch.target[:, :-1]))
            logits = parts["head"](decoded).flatten(0, 1).float()
            loss = F.cross_entropy(logits, batch.target[:, 1:].flatten(), ignore_index=PAD)
            # the encoder has no other use here
            loss = loss + 0.0 * encoded.float().sum()
        loss.backward()
        optimizer.step()

    milliseconds, _ = timed(step)
    tokens = 1e3 * batch.target_tokens / milliseconds
    result(f"bare LSTM: {milliseconds:.2f} ms a step, {tokens:,.0f} target tokens/s")


PROBES: dict[str, Callable[[Sequence[str]], None]] = {
    probe.__name__: probe
    for probe in (
        speed,
        trainer,
        graph,
        compiled,
        scaler,
        encoder_cells,
        loop,
        source_length,
        attention_mask,
        recurrent_kernels,
        seeds,
        sharded,
        checkpoint,
        generate,
        marian,
        bare_lstm,
    )
}


def main() -> None:
    """Run a probe."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("probe", choices=PROBES)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    options = parser.parse_args()
    tune_process()
    PROBES[options.probe](options.models or PAIR)


if __name__ == "__main__":
    main()
