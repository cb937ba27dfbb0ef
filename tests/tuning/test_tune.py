"""The learning-rate finder and the batch-size finder leave no files."""

from __future__ import annotations

import json
import math
import signal
from collections.abc import Callable
from pathlib import Path
from typing import cast

import click
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from dialog.cli import program
from dialog.config.compose import Composed
from dialog.data.batching import Batch, collate
from dialog.data.datamodule import BatchLoader
from dialog.errors import UserError
from dialog.training.callbacks.trial import RangeTest
from dialog.training.module import DialogModule
from dialog.tuning.range_test import BatchTrial, HeaviestLoader, bounded_memory, steepest


@pytest.fixture
def recipe(tiny: Callable[..., Composed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "t.yaml").write_text(tiny("transformer").yaml(), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return "t.yaml"


def test_a_learning_rate_with_its_picture(recipe: str, capsys: pytest.CaptureFixture[str]) -> None:
    program.main(
        ["tune", recipe, "--lr", "--steps", "40", "--output", "lr.svg", "--json"],
        standalone_mode=False,
    )
    out, err = capsys.readouterr()
    assert "\r" not in err  # no bar in a pipe
    found = json.loads(out)["lr"]
    assert found["losses"][0] == pytest.approx(math.log(400), abs=0.7)  # untrained
    assert min(found["losses"]) < 0.9 * found["losses"][0]
    assert found["rates"] == sorted(found["rates"])
    assert 1e-5 < found["suggestion"] < 0.3
    drawn = Path("lr.svg").read_text(encoding="utf-8")
    assert drawn.startswith("<svg")
    assert "light-dark" not in drawn, "only browsers know it"
    assert sorted(path.name for path in Path().iterdir()) == ["lr.svg", "t.yaml"]


class Interrupting:
    """Sends SIGINT to this process when it is destroyed: Python ignores exceptions that are raised
    there.
    """

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_within_a_finalizer_is_not_lost(
    recipe: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = DialogModule.training_step

    def interrupted_step(module: DialogModule, batch: Batch, batch_index: int) -> Tensor:
        Interrupting()  # destroyed at once
        return step(module, batch, batch_index)

    monkeypatch.setattr(DialogModule, "training_step", interrupted_step)
    with pytest.raises(click.Abort) as caught:
        program.main(["tune", recipe, "--lr", "--steps", "40"], standalone_mode=False)
    assert "tuning has no result, run it again" in str(caught.value.__cause__)


class OneBatch:
    """Stands in for a loader whose heaviest batches are one."""

    batch_tokens = 8

    def heaviest(self) -> tuple[Batch, Batch, float]:
        batch = collate([([6, 2], [1, 6, 2])])
        return batch, batch, 1.0


def test_peak_memory_is_that_of_the_device_of_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # and trainer.accelerator=cpu
    trials: list[BatchTrial] = []
    assert (
        len(list(HeaviestLoader(cast("BatchLoader", OneBatch()), torch.device("cpu"), trials))) == 4
    )
    assert trials[0].peak_memory > 0


def test_batches_grow_until_out_of_memory(
    recipe: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    step = DialogModule.training_step

    def short_of_memory(self: DialogModule, batch: Batch, batch_index: int) -> Tensor:
        if batch.source.numel() + batch.target.numel() > 2500:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
        return step(self, batch, batch_index)

    with monkeypatch.context() as patch:
        patch.setattr(DialogModule, "training_step", short_of_memory)
        program.main(["tune", recipe, "--batch-tokens", "--json"], standalone_mode=False)
    found = json.loads(capsys.readouterr().out)["batch_tokens"]
    assert [each["batch_tokens"] for each in found["tried"]] == [1024, 2048]
    assert found["largest"] == 2048
    assert all(each["target_tokens_per_second"] > 0 for each in found["tried"])
    program.main(["tune", recipe, "--batch-tokens", "--most", "1500"], standalone_mode=False)
    assert "data.batch_tokens: 1024 is the largest tried that fits" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to tune"),
        (["--lr", "--lowest", "1", "--highest", "0.1"], "--lowest 1 must be above 0 and below"),
        (["--lr", "--output", "lr.png"], "the plot must be an .svg"),
        (["--batch-tokens", "--output", "lr.svg"], "the plot must be an .svg"),
        (["--lr", "--output", "t.svg"], "t.svg exists"),
        (["--lr", "--output", "no/t.svg"], "no/t.svg: cannot be written"),
    ],
)
def test_invalid_options(recipe: str, arguments: list[str], message: str) -> None:
    Path("t.svg").touch()
    with pytest.raises(UserError, match=message):
        program.main(["tune", recipe, *arguments], standalone_mode=False)


@given(st.floats(-5, -2), st.floats(0.2, 1.0))
def test_the_steepest_fall_is_found(centre: float, width: float) -> None:
    logs = [-6 + 6 * step / 200 for step in range(201)]
    losses = [5 - 4 / (1 + math.exp(-(at - centre) / width)) + max(0.0, at + 1) * 20 for at in logs]
    found = steepest(RangeTest([10**at for at in logs], losses))
    assert found is not None
    assert math.log10(found) == pytest.approx(centre, abs=0.2)


@pytest.mark.parametrize("losses", [[1.0] * 50, [1.0 + step for step in range(50)]])
def test_where_nothing_falls_nothing_is_suggested(losses: list[float]) -> None:
    assert steepest(RangeTest([10 ** (step / 10) for step in range(50)], losses)) is None


@pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="memory is bounded on Linux only")
def test_memory_is_bounded_and_released() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with bounded_memory():
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        assert soft != resource.RLIM_INFINITY
        assert hard == before[1]
        with pytest.raises(RuntimeError, match="can't allocate memory"):
            torch.empty(soft, dtype=torch.uint8)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
