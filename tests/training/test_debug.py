"""The config group ``debug`` works with any recipe."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.config.compose import Composed, compose
from dialog.errors import UserError
from dialog.runs.check import check_recipe
from dialog.runs.train import train


def logged(folder: Path, name: str) -> list[float]:
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [line[name] for line in map(json.loads, lines) if name in line]


@pytest.mark.parametrize(
    "choice", ["overfit", "fast_dev_run", "limit", "profile", "detect_anomaly"]
)
def test_choice_applies_to_any_recipe(choice: str) -> None:
    origin = compose("dailydialog/lstm_pointer", [f"debug={choice}", "data.path=."]).origin
    assert any(
        place.rpartition(":")[0].endswith(f"debug/{choice}.yaml") for place in origin.values()
    )


def test_overfit_memorises_two_batches(tiny: Callable[..., Composed], tmp_path: Path) -> None:
    steps = [
        "trainer.max_steps=80",
        "trainer.val_check_interval=80",
        "~optimizer.schedule.warmup_steps",
    ]
    steps += ["trainer.log_every_n_steps=4"]  # more than the two batches: Lightning warns, in vain
    train(
        tiny("transformer", "debug=overfit", "data.batch_tokens=300", *steps),
        tmp_path / "run",
        quiet=True,
    )
    losses = logged(tmp_path / "run", "train/loss")
    assert losses[0] > 4
    assert max(losses[-2:]) < 0.1


def test_profile_writes_a_table_and_a_trace(tiny: Callable[..., Composed], tmp_path: Path) -> None:
    train(
        tiny("transformer", "debug=profile", "trainer.max_steps=9", "data.batch_tokens=300"),
        tmp_path / "run",
        quiet=True,
    )
    table, trace = sorted(
        (tmp_path / "run" / "profile").iterdir(), key=lambda path: path.suffix, reverse=True
    )
    assert "ProfilerStep*" in table.read_text(encoding="utf-8")
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    assert any(event["name"] == "aten::addmm" for event in events)
    assert sum(event["name"].startswith("ProfilerStep#") for event in events) >= 5


def test_fast_runs_each_stage(tiny: Callable[..., Composed], tmp_path: Path) -> None:
    # the group's values; the fixture overrides them
    steps = ["trainer.max_steps=6", "trainer.val_check_interval=3"]
    train(tiny("lstm", "debug=fast_dev_run", *steps), tmp_path / "run", quiet=True)
    assert len(logged(tmp_path / "run", "validation/loss")) == 2
    assert {"best.ckpt", "last.ckpt"} <= {
        path.name for path in (tmp_path / "run" / "checkpoints").iterdir()
    }


def test_unknown_profiler_is_rejected(tiny: Callable[..., Composed], tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match="trainer: unknown profiler 'torch'; did you mean 'pytorch'"
    ):
        check_recipe(tiny("lstm", "trainer.profiler=torch").recipe)
