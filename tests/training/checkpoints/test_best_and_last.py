"""The best and the last checkpoint, early stopping, and the validation of the last step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import Callback

import dialog
from dialog.build import build_trainer
from dialog.training.checkpoints.checkpoint_io import (
    BEST,
    LAST,
    MANIFEST,
    PREVIOUS,
    SafeCheckpointIO,
)
from dialog.training.loggers import RecordLogger

FAMILIES = ["lstm", "transformer"]
NAMES = (BEST, LAST, PREVIOUS)
Build = Callable[..., dialog.DialogModule]
Fit = Callable[..., lightning.Trainer]


@pytest.fixture
def fit(tiny: Callable[..., Any], data: dialog.DialogDataModule, tmp_path: Path) -> Fit:
    """``fit(module, *overrides, folder)``: train with the Trainer of a recipe, which validates
    after each step.
    """

    def run(
        module: dialog.DialogModule,
        *overrides: str,
        folder: Path = tmp_path,
        **parts: Any,
    ) -> lightning.Trainer:
        settings = ["trainer.log_every_n_steps=1", "trainer.val_check_interval=1", *overrides]
        folder.mkdir(exist_ok=True)
        trainer = build_trainer(
            tiny("transformer", *settings).recipe, folder, [RecordLogger(folder)], **parts
        )
        trainer.fit(module, data)
        return trainer

    return run


def checkpoint(folder: Path, name: str) -> dict[str, Any]:
    return SafeCheckpointIO().load_checkpoint(folder / "checkpoints" / f"{name}.ckpt")


def test_best_has_the_lowest_loss_and_last_the_last_step(
    scripted: Build, fit: Fit, tmp_path: Path
) -> None:
    module = scripted([3.0, 1.0, 2.0, 4.0])
    fit(module, "trainer.max_steps=4")
    assert checkpoint(tmp_path, "best")["global_step"] == 2
    last = checkpoint(tmp_path, "last")
    assert last["global_step"] == 4
    for name, value in module.state_dict().items():
        assert torch.equal(last["state_dict"][name], value)


def test_best_is_the_first_of_equal_validations(scripted: Build, fit: Fit, tmp_path: Path) -> None:
    fit(scripted([3.0, 1.0, 1.0]), "trainer.max_steps=3")
    assert checkpoint(tmp_path, "best")["global_step"] == 2


def test_a_checkpoint_needs_no_validation(scripted: Build, fit: Fit, tmp_path: Path) -> None:
    class Stop(Callback):
        def on_train_batch_end(self, trainer: lightning.Trainer, *_: object) -> None:
            if trainer.global_step == 5:
                raise RuntimeError("power cut")

    settings = [
        "trainer.max_steps=9",
        "trainer.val_check_interval=100",
        "checkpoint.every_n_steps=2",
    ]
    with pytest.raises(RuntimeError, match="power cut"):
        fit(scripted([]), *settings, callbacks=[Stop()])
    assert checkpoint(tmp_path, "last")["global_step"] == 4


@pytest.mark.parametrize("family", FAMILIES)
def test_the_manifest_has_the_hash_of_each_checkpoint(
    trained: Callable[[str], Path], family: str
) -> None:
    folder = trained(family) / "checkpoints"
    assert {path.name for path in folder.iterdir()} == {*NAMES, MANIFEST}, (
        "a temporary file is left"
    )
    hashes = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    assert hashes == {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in NAMES
    }


@pytest.mark.parametrize("family", FAMILIES)
def test_the_weights_file_has_the_best_weights(trained: Callable[[str], Path], family: str) -> None:
    best = checkpoint(trained(family), "best")["state_dict"]
    for name, value in dialog.load(trained(family)).model.state_dict().items():
        assert torch.equal(best[f"model.{name}"], value)


def test_keys_of_callbacks_are_those_of_old_checkpoints(trained: Callable[[str], Path]) -> None:
    """A renamed class must keep its key, or older runs cannot be resumed."""
    patience = "Patience{'monitor': 'validation/loss', 'mode': 'min'}"
    assert checkpoint(trained("lstm"), "last")["callbacks"].keys() == {
        "Checkpoints",
        "Record",
        patience,
    }


def test_a_checkpoint_runs_no_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return Path.touch, (tmp_path / "touched",)

    torch.save({"state_dict": Evil()}, tmp_path / "evil.ckpt")
    with pytest.raises(Exception, match=r"evil\.ckpt: .*objects other than tensors"):
        SafeCheckpointIO().load_checkpoint(tmp_path / "evil.ckpt", weights_only=False)
    assert not (tmp_path / "touched").exists()


def test_a_failed_write_keeps_the_old_checkpoint(tmp_path: Path) -> None:
    storage, path = SafeCheckpointIO(), tmp_path / "last.ckpt"
    storage.save_checkpoint({"epoch": 1}, path)
    with pytest.raises(Exception, match=r"pickle|local object"):
        storage.save_checkpoint({"epoch": lambda: 2}, path)
    assert storage.load_checkpoint(path) == {"epoch": 1}
    assert {file.name for file in tmp_path.iterdir()} == {"last.ckpt", MANIFEST}


# ------------------------------------------------------------------ the end of training


@pytest.mark.parametrize(("patience", "steps"), [("2", 4), ("null", 6)])
def test_early_stopping(scripted: Build, fit: Fit, patience: str, steps: int) -> None:
    trainer = fit(
        scripted([3.0, 2.0, 2.5, 2.5, 1.0, 1.0]),
        "trainer.max_steps=6",
        f"checkpoint.patience={patience}",
    )
    assert trainer.global_step == steps


@pytest.mark.parametrize(
    ("epochs", "every_epochs", "interval", "patience"),
    [
        (None, "1", "1.0", "null"),
        (None, "null", "460", "null"),
        (None, "null", "460", "5"),
        (2, "null", "460", "5"),
        (2, "5", "1.0", "null"),
    ],
    ids=[
        "in the first epoch",
        "before a validation",
        "with patience",
        "at the end of an epoch",
        "in a later epoch",
    ],
)
def test_the_last_step_is_validated(
    module: Build,
    fit: Fit,
    data: dialog.DialogDataModule,
    tmp_path: Path,
    epochs: int | None,
    every_epochs: str,
    interval: str,
    patience: str,
) -> None:
    limits = (
        ["trainer.max_steps=-1", f"trainer.max_epochs={epochs}"]
        if epochs
        else ["trainer.max_steps=2"]
    )
    intervals = [
        f"trainer.check_val_every_n_epoch={every_epochs}",
        f"trainer.val_check_interval={interval}",
    ]
    trainer = fit(module(), *limits, *intervals, f"checkpoint.patience={patience}")
    assert trainer.global_step == (epochs * len(data.train_dataloader()) if epochs else 2)
    lines = [
        json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text("utf-8").splitlines()
    ]
    assert sum("validation/loss" in line for line in lines) == 1
    steps = {checkpoint(tmp_path, name)["global_step"] for name in ("best", "last")}
    assert steps == {trainer.global_step}
