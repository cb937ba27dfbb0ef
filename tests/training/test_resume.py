"""A training that is stopped anywhere and gone on with is the training that was not stopped, to the last bit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dialog import assemble
from dialog.data.batching import Batch
from dialog.training.checkpoint_io import SafeCheckpointIO
from dialog.training.module import DialogModule

CLOCK = ("time", "train/tokens_per_second")
CHANCE = [
    "model.dropout=0.3",
    "data.bpe_dropout=0.1",
    "model.teacher_forcing={name: constant, ratio: 0.7, sampled: true}",
    "model.objectives=[{name: denoising, weight: 0.2}]",
    "trainer.log_every_n_steps=1",
]


class Gone(BaseException):
    """The power is off: nothing takes it for an error."""


@pytest.fixture
def power(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """``power(n)``: from now on it lasts for n micro-batches."""
    left: Iterator[int] = iter(())
    step = DialogModule.training_step

    def training_step(self: DialogModule, batch: Batch, batch_index: int) -> Tensor:
        if next(left, None) is None:
            raise Gone
        return step(self, batch, batch_index)

    def last(batches: int) -> None:
        nonlocal left
        left = iter(range(batches))

    monkeypatch.setattr(DialogModule, "training_step", training_step)
    return last


def record(folder: Path) -> list[dict[str, Any]]:
    """The lines of the record, without what a clock says."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key not in CLOCK} for line in lines]


def same(one: object, other: object) -> bool:
    """Whether two checkpoints' contents are equal to the last bit."""
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def checkpoint(folder: Path) -> dict[str, Any]:
    found = SafeCheckpointIO().load_checkpoint(folder / "checkpoints" / "last.ckpt")
    del found["callbacks"]["Record"]  # it has the clock's seconds
    return found


@pytest.mark.parametrize(
    ("family", "settings", "lives"),
    [
        (
            "lstm",
            [
                "optimizer.schedule={name: plateau, patience: 0}",
                "trainer.accumulate_grad_batches=2",
                "checkpoint.every_n_steps=2",
            ],
            [1, 5, 3, 8, 7],
        ),
        (
            "transformer",
            ["optimizer.schedule={name: cosine}", "trainer.accumulate_grad_batches=3", "trainer.val_check_interval=5"],
            [8, 7, 6, 13],
        ),
    ],
)
def test_a_run_that_loses_power_again_and_again(
    tiny: Callable[..., Any],
    tmp_path: Path,
    power: Callable[[int], None],
    family: str,
    settings: list[str],
    lives: list[int],
) -> None:
    recipe = tiny(family, *CHANCE, "trainer.max_steps=14", "trainer.val_check_interval=4", *settings)
    power(1000)
    whole = assemble.train(recipe, tmp_path / "whole", quiet=True)
    power(lives[0])
    with pytest.raises(Gone):
        assemble.train(recipe, tmp_path / "run", quiet=True)
    for life in lives[1:]:
        power(life)
        with pytest.raises(Gone):
            assemble.resume(tmp_path / "run", quiet=True)
    power(1000)
    resumed = assemble.resume(tmp_path / "run", quiet=True)
    assert (resumed.steps, resumed.target_tokens) == (whole.steps, whole.target_tokens)
    assert record(tmp_path / "run") == record(tmp_path / "whole")
    assert same(checkpoint(tmp_path / "run"), checkpoint(tmp_path / "whole"))
    assert same(*(load_file(tmp_path / name / "model.safetensors") for name in ("run", "whole")))
