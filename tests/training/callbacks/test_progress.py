"""Throughput, as logged, and the time left that is shown."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import dialog
from dialog.build import build_module, build_trainer
from dialog.training.callbacks import progress
from dialog.training.loggers import RecordLogger


def test_throughput_is_that_of_all_micro_batches(
    tiny: Callable[..., Any], prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 1 s between logs
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=itertools.count().__next__))
    overrides = [
        "trainer.accumulate_grad_batches=3",
        "trainer.log_every_n_steps=2",
        "trainer.val_check_interval=9999",
    ]
    recipe = tiny("transformer", *overrides, "trainer.max_steps=6").recipe
    trainer = build_trainer(recipe, tmp_path, [RecordLogger(tmp_path)])
    trainer.fit(build_module(recipe, 400), dialog.DialogDataModule(prepared, batch_tokens=1200))
    lines = map(json.loads, (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    logged = [line for line in lines if "train/tokens" in line]
    tokens = [0.0, *(line["train/tokens"] for line in logged)]
    assert [line["train/tokens_per_second"] for line in logged] == [
        b - a for a, b in itertools.pairwise(tokens)
    ]


@pytest.mark.parametrize(("done", "expected"), [(10, 30.0), (90, None)])
def test_a_time_limit_is_shown_if_it_ends_training_first(done: int, expected: float | None) -> None:
    shown = progress.Progress()
    shown.total = 100
    assert shown._limit(done) is None
    clock: Any = SimpleNamespace(time_remaining=lambda: 30.0, time_elapsed=lambda: 30.0)
    shown.clock = clock
    assert shown._limit(done) == expected
