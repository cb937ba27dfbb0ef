"""Figures of the benchmark: constructed steps, a fake clock, counted batches."""

from __future__ import annotations

import itertools
import mmap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from dialog.analysis.flops import FUSED, forward_flops, training_flops
from dialog.benchmark import bound
from dialog.benchmark.training import rates, shortened
from dialog.build import build_data, build_model, build_module, build_trainer
from dialog.config.compose import Composed
from dialog.data.store.store import Store
from dialog.training.callbacks import memory, stopwatch
from dialog.training.callbacks.stopwatch import BatchShape, Loading, Stopwatch, TimedStep

Tiny = Callable[..., Composed]


# ------------------------------------------------------------------ steps


def test_rates_of_steps_that_are_known(tiny: Tiny) -> None:
    model = build_model(tiny("transformer").recipe.model, 50).eval()
    small, large = BatchShape(2, 20, 6, 40), BatchShape(3, 12, 6, 20)
    steps = [
        TimedStep(1.0, 0.25, (small,)),
        TimedStep(2.0, 0.5, (small, large)),
        TimedStep(4.0, 1.0, (small,)),
    ]
    found = rates(steps, model)
    assert found["steps"] == len(found["each_step"]) == 3
    assert found["each_step"][1]["places"] == 60
    assert found["target_tokens_per_second"] == 6.0  # of 6, 6 and 1.5
    assert found["tokens_per_second"] == 22.0  # of 26, 22 and 6.5
    assert found["target_tokens_per_second_overall"] == 24 / 7
    assert found["target_tokens_per_step"] == 8.0
    assert found["rows_per_step"] == 3.0
    assert found["step_seconds"] == 2.0
    assert found["step_quartiles"] == [1.5, 3.0]
    assert found["padding"] == pytest.approx(1 - (3 * 26 + 18) / 140)
    assert found["loading"] == 0.25
    one, other = 2 * training_flops(model, 10, 3), 3 * training_flops(model, 4, 2)
    assert found["flops_per_second"] == sorted([one, (one + other) / 2, one / 4])[1]


def test_a_single_step_has_a_spread_of_nothing(tiny: Tiny) -> None:
    model = build_model(tiny("transformer").recipe.model, 50).eval()
    found = rates([TimedStep(2.0, 0.0, (BatchShape(1, 4, 3, 8),))], model)
    assert found["step_quartiles"] == [2.0, 2.0]


@pytest.mark.parametrize("batches", [1, 2])
def test_the_stopwatch_sees_every_batch_of_every_step(
    batches: int, tiny: Tiny, prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: float(next(ticks)))
    recipe = shortened(tiny("transformer", f"trainer.accumulate_grad_batches={batches}").recipe, 3)
    store = Store(prepared, "train")
    module, watch = build_module(recipe, len(store.tokenizer)), Stopwatch()
    lightning = build_trainer(recipe, tmp_path, [], [watch])
    lightning.fit(module, build_data(recipe, prepared, store.tokenizer))
    steps = watch.steps()
    assert [len(step.batches) for step in steps] == [batches] * 3
    assert sum(step.target_tokens for step in steps) == module.target_tokens
    # each look at the clock is a second
    assert [step.loading for step in steps] == [float(batches)] * 3
    assert all(step.seconds > step.loading for step in steps)
    assert sum(step.seconds for step in steps) < next(ticks)
    positions = sum(shape.positions for step in steps for shape in step.batches)
    assert positions >= sum(step.source_tokens + step.target_tokens for step in steps)


def test_only_waiting_for_batches_is_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: float(next(ticks)))
    loading = Loading()
    for action in ("[_TrainingEpochLoop].train_dataloader_next", "run_training_batch"):
        loading.start(action)
        next(ticks)
        loading.stop(action)
    assert loading.seconds == 2.0


# ------------------------------------------------------------------ FLOPs and the bound


GRU = [
    "model.encoder={name: gru, size: 24}",
    "model.decoder={name: gru, size: 24, attention: {name: additive, size: 16}}",
]


@pytest.mark.parametrize(
    ("family", "overrides", "constant"),
    [
        ("transformer", [], 0),
        ("lstm", [], 0),
        # the zeros that either direction begins with take no gradient
        ("lstm", GRU, 2 * (2 * 12 * 36)),
    ],
    ids=["transformer", "lstm", "gru"],
)
def test_training_costs_what_its_products_cost(
    family: str, overrides: list[str], constant: int, tiny: Tiny
) -> None:
    model = build_model(tiny(family, *overrides).recipe.model, 50).train()
    source, target = torch.randint(5, 50, (1, 9)), torch.randint(5, 50, (1, 6))
    fused = {**FUSED, torch.ops.aten.mkldnn_rnn_layer_backward: twice_an_lstm}
    with FlopCounterMode(display=False, custom_mapping=fused) as counter:
        model(source, source > 0, target, lambda *_: None).sum().backward()
    assert (
        counter.get_total_flops() + constant
        == training_flops(model.eval(), 9, 6)
        == 3 * forward_flops(model, 9, 6)
    )


def twice_an_lstm(
    inputs: list[int], first: list[int], second: list[int], *_: object, **__: object
) -> int:
    """The gradients of both factors of both products at each step."""
    return 2 * 2 * inputs[0] * inputs[1] * first[0] * (first[1] + second[1])


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        ("32-true", torch.float32),
        ("64-true", torch.float64),
        ("bf16-mixed", torch.bfloat16),
        ("bf16-true", torch.bfloat16),
        ("16-mixed", torch.float16),
    ],
)
def test_the_bound_is_of_the_precision(
    precision: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that a product puts forward by a second: the largest matrices are the fastest."""
    seen, clock = [], itertools.count()
    monkeypatch.setattr(bound, "SMALLEST", 4)
    monkeypatch.setattr(bound, "LARGEST_OF_OTHERS", 16)
    monkeypatch.setattr(bound, "SECONDS", 30.0)
    monkeypatch.setattr(
        bound.torch, "mm", lambda left, right: seen.append((len(left), left.dtype, right.dtype))
    )
    monkeypatch.setattr(bound.time, "perf_counter", lambda: float(next(clock)))
    assert bound.gemm_peak(precision, "cpu") == 2 * 16**3
    assert set(seen) == {(size, dtype, dtype) for size in (4, 8, 16)}


# ------------------------------------------------------------------ memory


@pytest.mark.skipif(not (memory.PROCESS / "clear_refs").exists(), reason="needs Linux")
def test_the_peak_is_of_what_came_after_it_was_forgotten() -> None:
    """Of pages from the system: the process keeps what tensors have freed."""
    memory.reset_peak()
    before = memory.process_peak()
    with mmap.mmap(-1, 64 * 2**20) as pages:
        pages.write(bytes(len(pages)))
    after = memory.process_peak()
    memory.reset_peak()
    assert after - before >= 32 * 2**20
    assert after - memory.process_peak() >= 32 * 2**20
