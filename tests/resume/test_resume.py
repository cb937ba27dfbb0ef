"""A run that is interrupted anywhere and resumed is bit-identical to an uninterrupted one."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from dialog.config.schema import TrainerConfig
from dialog.data.batching import Batch
from dialog.errors import UserError
from dialog.runs.folder import LISTED, commits_of
from dialog.runs.proof import compare
from dialog.runs.train import resume, train, with_same_steps
from dialog.signals import STOP_SIGNALS
from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO, newest
from dialog.training.checkpoints.manifest import list_files
from dialog.training.distributed.signals import StopSignals
from dialog.training.module import DialogModule

CHANCE = [
    "model.dropout=0.3",
    "data.bpe_dropout=0.1",
    "model.teacher_forcing={name: constant, ratio: 0.7, sampled: true}",
    "model.objectives=[{name: denoising, weight: 0.2}]",
    "trainer.log_every_n_steps=1",
    "preflight=false",
]


class PowerCut(BaseException):
    """Not an Exception, so that no handler of errors catches it."""


@pytest.fixture
def power(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """``power(n)``: it fails after n more micro-batches."""
    left: Iterator[int] = iter(())
    step = DialogModule.training_step

    def training_step(self: DialogModule, batch: Batch, batch_index: int) -> Tensor:
        if next(left, None) is None:
            raise PowerCut
        return step(self, batch, batch_index)

    def fail_after(batches: int) -> None:
        nonlocal left
        left = iter(range(batches))

    monkeypatch.setattr(DialogModule, "training_step", training_step)
    return fail_after


def same(one: object, other: object) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            same(value, other[key]) for key, value in one.items()
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def checkpoint(folder: Path) -> dict[str, Any]:
    content = SafeCheckpointIO().load_checkpoint(folder / "checkpoints" / "last.ckpt")
    del content["callbacks"]["Record"]  # seconds of the clock
    return content


@pytest.mark.parametrize(
    ("family", "settings", "lives"),
    [
        (
            "lstm",
            [
                "optimizer.schedule={name: plateau, patience: 0}",
                "trainer.accumulate_grad_batches=2",
                "trainer.precision=64-true",
                "checkpoint.every_n_steps=2",
            ],
            [1, 5, 8],
        ),
        pytest.param(
            "transformer",
            [
                "optimizer.schedule={name: cosine}",
                "trainer.accumulate_grad_batches=3",
                "trainer.val_check_interval=5",
            ],
            [8, 6],
            marks=pytest.mark.endurance,
        ),
    ],
)
def test_run_with_power_cuts_is_the_whole_run(
    tiny: Callable[..., Any],
    tmp_path: Path,
    power: Callable[[int], None],
    family: str,
    settings: list[str],
    lives: list[int],
) -> None:
    recipe = tiny(family, *CHANCE, "trainer.max_steps=8", "trainer.val_check_interval=4", *settings)
    power(1000)
    whole = train(recipe, tmp_path / "whole", quiet=True)
    power(lives[0])
    with pytest.raises(PowerCut):
        train(recipe, tmp_path / "run", quiet=True)
    for life in lives[1:]:
        power(life)
        with pytest.raises(PowerCut):
            resume(tmp_path / "run", quiet=True)
    power(1000)
    resumed = resume(tmp_path / "run", quiet=True)
    assert (resumed.steps, resumed.target_tokens) == (whole.steps, whole.target_tokens)
    assert compare(tmp_path / "run", tmp_path / "whole").same
    assert same(checkpoint(tmp_path / "run"), checkpoint(tmp_path / "whole"))


def test_full_disk_names_the_file_and_how_to_continue(
    tiny: Callable[..., Any], tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    path, aside = folder / "metrics.jsonl", folder / "aside"
    step = DialogModule.training_step

    def training_step(self: DialogModule, batch: Batch, batch_index: int) -> Tensor:
        if self.global_step == 4 and not path.is_symlink():
            path.rename(aside)
            path.symlink_to("/dev/full")
        return step(self, batch, batch_index)

    monkeypatch.setattr(DialogModule, "training_step", training_step)
    with pytest.raises(UserError) as raised:
        train(tiny("transformer", *CHANCE, *SHORT), folder, quiet=True)
    command = f"continue with: python -m dialog train --resume {folder}"
    assert str(raised.value) == f"{path}: No space left on device; free disk space and {command}"
    monkeypatch.undo()
    aside.replace(path)
    resume(folder, quiet=True)
    assert compare(folder, whole).same


# ------------------------------------------------------------------ signals


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, int, int], None]:
    """``sent(step, n, number)``: raise a signal in the n-th ``training_step`` or
    ``validation_step``.
    """

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
        ("training_step", 1, signal.SIGINT, 1),  # within a step
        # in the last step, whose validation is then pending
        pytest.param("training_step", 12, signal.SIGTERM, 6, marks=pytest.mark.endurance),
        # in a validation within an accumulation: nothing saved yet
        pytest.param("validation_step", 1, signal.SIGHUP, 0, marks=pytest.mark.endurance),
        # in a validation after a step, which is repeated
        ("validation_step", 4, signal.SIGUSR1, 3),
    ],
)
def test_signal_saves_at_next_step_and_skips_validation(
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
        message = str(stop.value)
    else:
        assert stop.value.code == (129 if number == signal.SIGHUP else 143)
        (message,) = [line for line in caplog.messages if "--resume" in line]
    assert re.fullmatch(
        rf"stopped by {number.name}; resume at step {steps}: .* train --resume {folder}", message
    )
    assert len(validations(folder)) < len(validations(whole))
    assert (newest(folder / "checkpoints") is not None) == (steps > 0)
    if steps:
        assert checkpoint(folder)["global_step"] == steps
    resume(folder, quiet=True)
    assert compare(folder, whole).same


ZEROS = "0" * 64
SHORT = [
    "trainer.max_steps=6",
    "trainer.accumulate_grad_batches=2",
    "trainer.val_check_interval=3",
    "trainer.limit_val_batches=3",
]


@pytest.fixture(scope="module")
def whole(tiny: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    return train(
        tiny("transformer", *CHANCE, *SHORT), tmp_path_factory.mktemp("run") / "whole", quiet=True
    ).folder


def validations(folder: Path) -> list[str]:
    path = folder / "metrics.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [line for line in lines if "validation/loss" in line]


def test_second_signal_exits_at_once() -> None:
    """Unless it comes less than a second after the first, as launchers forward signals."""
    child = os.fork()
    if not child:
        StopSignals(None).register_signal_handlers()
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        time.sleep(1.1)
        signal.raise_signal(signal.SIGTERM)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 143


def test_ignored_hangup_stays_ignored() -> None:
    """As under nohup."""
    child = os.fork()
    if not child:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        StopSignals(None).register_signal_handlers()
        os._exit(0 if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_lost_terminal_does_not_break_the_save() -> None:
    child, terminal = pty.fork()
    if not child:
        with suppress(BaseException):
            signals = StopSignals(None)
            signals.register_signal_handlers()
            os.write(1, b"ready")
            while not signals.received:
                time.sleep(0.01)
            os.write(2, b"step 7")
            os._exit(0)
        os._exit(1)
    os.read(terminal, 5)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# ------------------------------------------------------------------ resumed runs


def test_finished_run_can_be_extended(
    tiny: Callable[..., Any], tmp_path: Path, whole: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "moved"))
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    with caplog.at_level("INFO", "dialog"):
        assert resume(folder, quiet=True).steps == 6
    assert [message for message in caplog.messages if "has finished at step 6" in message]
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    longer = resume(folder, ["trainer.max_steps=9"], quiet=True)
    straight = train(
        tiny("transformer", *CHANCE, *SHORT, "trainer.max_steps=9"), tmp_path / "nine", quiet=True
    )
    assert longer.steps == straight.steps == 9
    assert longer.target_tokens == straight.target_tokens
    assert same(
        load_file(folder / "model.safetensors"), load_file(tmp_path / "nine" / "model.safetensors")
    )
    assert resume(folder, quiet=True).steps == 9


def test_commits_of_resumes_are_recorded(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "moved"))
    (started,) = commits_of(folder)
    for steps, commit in (
        (7, started),
        (8, "0123456789ab"),
        (9, "0123456789ab"),
    ):
        monkeypatch.setattr("dialog.runs.folder._git", lambda commit=commit: commit)
        resume(folder, [f"trainer.max_steps={steps}"], quiet=True)
    assert commits_of(folder) == [started, "0123456789ab"]


@pytest.mark.parametrize(
    "override", ["model.dropout=0", "trainer.accumulate_grad_batches=4", "seed=2", "data=builtin"]
)
def test_override_that_changes_the_run_is_rejected(whole: Path, override: str) -> None:
    key = override.partition("=")[0]
    with pytest.raises(UserError, match=rf"^--resume: {re.escape(key)} cannot change within a run"):
        resume(whole, [override], quiet=True)


SPLIT = ["trainer.devices=2", "trainer.accumulate_grad_batches=2"]
ALONE = ["trainer.devices=1", "trainer.accumulate_grad_batches=4"]


def test_batches_of_a_process_are_counted_anew(tiny: Callable[..., Any]) -> None:
    """With half as many processes; fractions of an epoch stay."""

    def resumed(interval: str) -> TrainerConfig:
        counts = [f"trainer.val_check_interval={interval}", "trainer.limit_train_batches=10"]
        before, after = (tiny("lstm", *split, *counts).recipe for split in (SPLIT, ALONE))
        return with_same_steps(before, after).trainer

    trainer = resumed("7")
    assert (trainer.val_check_interval, trainer.limit_train_batches) == (14, 20)
    assert resumed("0.25").val_check_interval == 0.25


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainer.num_nodes=2", "product stays 4; here it is 2 x 4"),
        ("trainer.val_check_interval=7", "val_check_interval=7 "),
        ("trainer.limit_val_batches=2", "limit_val_batches=2 "),
        ("trainer.limit_train_batches=0.5", "limit_train_batches=0.5 "),
    ],
)
def test_other_batches_of_a_step_are_rejected(
    tiny: Callable[..., Any], override: str, message: str
) -> None:
    counts = [] if "nodes" in override else [override]
    before = tiny("lstm", *ALONE, "trainer.val_check_interval=0.5", *counts).recipe
    after = tiny("lstm", *SPLIT, "trainer.val_check_interval=0.5", override).recipe
    with pytest.raises(UserError, match=re.escape(message)):
        with_same_steps(before, after)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus": ZEROS}, r"was trained on other data \(000000000000, now "),
        (
            {"data_format": 3},
            (
                r"prepares the data in another way \(format \d\) than .* \(format 3\); resume with"
                r" that"
            ),
        ),
        ({}, "prepares the data in another way"),  # settings that this version has added
    ],
)
def test_changed_data_are_rejected(
    whole: Path, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "moved"))
    (folder / "summary.json").unlink()
    environment = json.loads((folder / "environment.json").read_text(encoding="utf-8"))
    changed = {**environment, "data": ZEROS, **changes}
    (folder / "environment.json").write_text(json.dumps(changed), encoding="utf-8")
    with pytest.raises(UserError, match=r"environment\.json: has changed"):
        resume(folder, quiet=True)
    list_files(folder, LISTED)
    with pytest.raises(UserError, match=message):
        resume(folder, quiet=True)
    assert not (folder / "summary.json").exists()
    assert (folder / "checkpoints" / "last.ckpt").exists()


def test_run_that_imports_code_needs_trust(whole: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "moved"))
    recipe = (folder / "recipe.yaml").read_text(encoding="utf-8")
    (folder / "recipe.yaml").write_text(
        recipe.replace("name: adamw", "name: evil.AdamW"), encoding="utf-8"
    )
    list_files(folder, LISTED)
    with pytest.raises(UserError, match=r"imports 'evil\.AdamW'"):
        resume(folder, quiet=True)


def test_missing_prepared_data_are_prepared_again(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(shutil.copytree(whole, tmp_path / "moved"))
    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path / "empty"))
    (folder / "summary.json").unlink()
    (folder / "model.safetensors").unlink()
    assert resume(folder, quiet=True).steps == 6
    assert compare(folder, whole).same


def test_early_stopping_is_resumed(
    tiny: Callable[..., Any], tmp_path: Path, power: Callable[[int], None]
) -> None:
    settings = [
        "optimizer.lr=0",
        "model.dropout=0",
        "checkpoint.patience=2",
        "trainer.val_check_interval=2",
    ]
    recipe = tiny(
        "transformer",
        *settings,
        "trainer.max_steps=40",
        "trainer.log_every_n_steps=1",
        "preflight=false",
    )
    power(1000)
    assert train(recipe, tmp_path / "whole", quiet=True).steps == 6
    power(5)
    with pytest.raises(PowerCut):
        train(recipe, tmp_path / "run", quiet=True)
    power(1000)
    assert resume(tmp_path / "run", quiet=True).steps == 6
    assert compare(tmp_path / "run", tmp_path / "whole").same
    # nothing changes
    assert resume(tmp_path / "run", ["checkpoint.patience=2"], quiet=True).steps == 6
    for name in ("summary.json", "model.safetensors"):  # killed after its last save
        (tmp_path / "run" / name).unlink()
    assert resume(tmp_path / "run", quiet=True).steps == 6
    assert compare(tmp_path / "run", tmp_path / "whole").same
    assert resume(tmp_path / "run", ["checkpoint={patience: 3}"], quiet=True).steps == 8
    for change in (
        "checkpoint.monitor=validation/token_accuracy",
        "checkpoint.averaging={name: last}",
    ):
        with pytest.raises(
            UserError, match=rf"{change.partition('=')[0]} cannot change within a run"
        ):
            resume(tmp_path / "run", [change], quiet=True)


@pytest.mark.endurance
def test_resumed_run_keeps_its_wandb_id(
    tiny: Callable[..., Any], tmp_path: Path, power: Callable[[int], None]
) -> None:
    settings = [
        *SHORT,
        "logger=wandb",
        "logger.mode=offline",
        "checkpoint.every_n_steps=1",
        "preflight=false",
    ]
    recipe = tiny("transformer", *settings, "trainer.max_steps=4", "trainer.val_check_interval=8")
    power(5)
    with pytest.raises(PowerCut):
        train(recipe, tmp_path / "run", quiet=True)
    power(1000)
    time.sleep(1.1)  # the names of its folders contain seconds
    resume(tmp_path / "run", quiet=True)
    folders = sorted((tmp_path / "run" / "wandb").glob("offline-run-*"))
    assert len(folders) == 2
    assert len({path.name.rpartition("-")[2] for path in folders}) == 1
