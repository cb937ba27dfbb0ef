"""A training that is stopped anywhere and gone on with is the training that was not stopped, to the last bit."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dialog.data.batching import Batch
from dialog.errors import UserError
from dialog.runs.proof import compare
from dialog.runs.resume import resume
from dialog.runs.train import train
from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO, newest
from dialog.training.distributed.signals import STOP_SIGNALS, StopSignals
from dialog.training.module import DialogModule

CHANCE = [
    "model.dropout=0.3",
    "data.bpe_dropout=0.1",
    "model.teacher_forcing={name: constant, ratio: 0.7, sampled: true}",
    "model.objectives=[{name: denoising, weight: 0.2}]",
    "trainer.log_every_n_steps=1",
    "preflight=false",
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
    whole = train(recipe, tmp_path / "whole", quiet=True)
    power(lives[0])
    with pytest.raises(Gone):
        train(recipe, tmp_path / "run", quiet=True)
    for life in lives[1:]:
        power(life)
        with pytest.raises(Gone):
            resume(tmp_path / "run", quiet=True)
    power(1000)
    resumed = resume(tmp_path / "run", quiet=True)
    assert (resumed.steps, resumed.target_tokens) == (whole.steps, whole.target_tokens)
    assert compare(tmp_path / "run", tmp_path / "whole").same
    assert same(checkpoint(tmp_path / "run"), checkpoint(tmp_path / "whole"))


# ------------------------------------------------------------------ signals


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, int], None]:
    """``sent(step, n, number)``: this process gets a signal in the n-th ``training_step`` or ``validation_step``."""

    def set_up(name: str, place: int, number: int) -> None:
        calls, step = count(1), getattr(DialogModule, name)

        def instead(self: DialogModule, batch: Batch, batch_index: int) -> Tensor:
            if next(calls) == place:
                signal.raise_signal(number)
            return step(self, batch, batch_index)

        monkeypatch.setattr(DialogModule, name, instead)

    return set_up


@pytest.mark.parametrize(
    ("name", "place", "number", "steps"),
    [
        ("training_step", 1, signal.SIGINT, 1),  # in the middle of a step
        ("training_step", 12, signal.SIGTERM, 6),  # in the last one, of which the validation is still to come
        ("validation_step", 1, signal.SIGTERM, 0),  # in a validation within an accumulation: from the save before it
        ("validation_step", 4, signal.SIGUSR1, 3),  # in a validation after a step, which begins again
    ],
)
def test_a_signal_saves_at_the_next_step_and_skips_validation(
    tiny: Callable[..., Any],
    tmp_path: Path,
    whole: Path,
    sent: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    name: str,
    place: int,
    number: signal.Signals,
    steps: int,
) -> None:
    sent(name, place, number)
    folder = tmp_path / "run"
    before = [signal.getsignal(each) for each in STOP_SIGNALS]
    with caplog.at_level("INFO", "dialog"), pytest.raises((SystemExit, KeyboardInterrupt)) as stop:
        train(tiny("transformer", *CHANCE, *SHORT), folder, quiet=True)
    assert [signal.getsignal(each) for each in STOP_SIGNALS] == before
    if number == signal.SIGINT:
        told = str(stop.value)
    else:
        assert stop.value.code == 143
        (told,) = [line for line in caplog.messages if "--resume" in line]
    assert re.fullmatch(rf"stopped by {number.name}; resume at step {steps}: .* train --resume {folder}", told)
    assert len(validations(folder)) < len(validations(whole))
    assert (newest(folder / "checkpoints") is not None) == (steps > 0)
    if steps:
        assert checkpoint(folder)["global_step"] == steps
    resume(folder, quiet=True)
    assert compare(folder, whole).same


SHORT = [
    "trainer.max_steps=6",
    "trainer.accumulate_grad_batches=2",
    "trainer.val_check_interval=3",
    "trainer.limit_val_batches=3",
]


@pytest.fixture(scope="module")
def whole(tiny: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was left alone."""
    return train(tiny("transformer", *CHANCE, *SHORT), tmp_path_factory.mktemp("run") / "whole", quiet=True).folder


def validations(folder: Path) -> list[str]:
    lines = (
        (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        if (folder / "metrics.jsonl").exists()
        else []
    )
    return [line for line in lines if "validation/loss" in line]


def test_a_second_signal_ends_at_once() -> None:
    """But not what starters pass on a moment after the first."""
    child = os.fork()
    if not child:
        StopSignals(None).register_signal_handlers()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        time.sleep(1.1)
        signal.raise_signal(signal.SIGTERM)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 143


# ------------------------------------------------------------------ the run that goes on


def test_a_run_that_has_ended_says_so_and_may_be_made_longer(
    tiny: Callable[..., Any], tmp_path: Path, whole: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "moved"))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with caplog.at_level("INFO", "dialog"):
        assert resume(folder, quiet=True).steps == 6
    assert [message for message in caplog.messages if "has finished at step 6" in message]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    longer = resume(folder, ["trainer.max_steps=9"], quiet=True)
    straight = train(tiny("transformer", *CHANCE, *SHORT, "trainer.max_steps=9"), tmp_path / "nine", quiet=True)
    assert longer.steps == straight.steps == 9
    assert longer.target_tokens == straight.target_tokens
    assert same(load_file(folder / "model.safetensors"), load_file(tmp_path / "nine" / "model.safetensors"))
    assert resume(folder, quiet=True).steps == 9


@pytest.mark.parametrize("override", ["model.dropout=0", "trainer.accumulate_grad_batches=4", "seed=2", "data=builtin"])
def test_what_would_make_it_another_run_is_refused(whole: Path, override: str) -> None:
    key = override.partition("=")[0]
    with pytest.raises(UserError, match=rf"^--resume: {re.escape(key)} cannot change within a run"):
        resume(whole, [override], quiet=True)


def test_a_corpus_that_has_changed_is_refused(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "moved"))
    (folder / "summary.json").unlink()
    known = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    (folder / "environment.json").write_text(json.dumps({**known, "data": "0" * 64}), encoding="utf-8")
    with pytest.raises(UserError, match=r"was trained on other data \(000000000000, now "):
        resume(folder, quiet=True)
    assert not (folder / "summary.json").exists()
    assert (folder / "checkpoints" / "last.ckpt").exists()


def test_a_run_that_imports_code_goes_on_only_if_it_is_trusted(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "moved"))
    recipe = (folder / "recipe.yaml").read_text(encoding="utf-8")
    (folder / "recipe.yaml").write_text(recipe.replace("name: adamw", "name: evil.AdamW"), encoding="utf-8")
    with pytest.raises(UserError, match=r"imports 'evil\.AdamW'"):
        resume(folder, quiet=True)


def test_prepared_data_that_are_gone_are_prepared_again(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "moved"))
    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path / "empty"))
    (folder / "summary.json").unlink()
    (folder / "model.safetensors").unlink()
    assert resume(folder, quiet=True).steps == 6
    assert compare(folder, whole).same


def test_early_stopping_goes_on_and_stays(
    tiny: Callable[..., Any], tmp_path: Path, power: Callable[[int], None]
) -> None:
    settings = ["optimizer.lr=0", "model.dropout=0", "checkpoint.patience=2", "trainer.val_check_interval=2"]
    recipe = tiny("transformer", *settings, "trainer.max_steps=40", "trainer.log_every_n_steps=1", "preflight=false")
    power(1000)
    left = train(recipe, tmp_path / "whole", quiet=True)
    assert left.steps == 6
    power(5)
    with pytest.raises(Gone):
        train(recipe, tmp_path / "run", quiet=True)
    power(1000)
    assert resume(tmp_path / "run", quiet=True).steps == 6
    assert compare(tmp_path / "run", tmp_path / "whole").same
    for name in ("summary.json", "model.safetensors"):  # killed after its last save
        (tmp_path / "run" / name).unlink()
    assert resume(tmp_path / "run", quiet=True).steps == 6
    assert compare(tmp_path / "run", tmp_path / "whole").same


def test_a_resumed_run_is_one_in_weights_and_biases(
    tiny: Callable[..., Any], tmp_path: Path, power: Callable[[int], None]
) -> None:
    recipe = tiny(
        "transformer", *SHORT, "logger=wandb", "logger.mode=offline", "checkpoint.every_n_steps=1", "preflight=false"
    )
    power(5)
    with pytest.raises(Gone):
        train(recipe, tmp_path / "run", quiet=True)
    power(1000)
    time.sleep(1.1)  # its folders are named by the second
    resume(tmp_path / "run", quiet=True)
    folders = sorted((tmp_path / "run" / "wandb").glob("offline-run-*"))
    assert len(folders) == 2
    assert len({path.name.rpartition("-")[2] for path in folders}) == 1
