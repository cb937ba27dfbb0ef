"""A DialogModule with a user's own DataLoader, in a Trainer without any of this package's parts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import pytest
from lightning.pytorch.callbacks import Callback, LearningRateFinder
from torch.utils.data import DataLoader

import dialog
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER

Build = Callable[..., dialog.DialogModule]
PAIRS = [([OTHER, 7, 8, EOS], [BOS, 9, EOS]), ([OTHER, 7, EOS], [BOS, 9, 10, EOS])] * 4
SIZE = 7


def collate(pairs: Any) -> dialog.Batch:
    return dialog.collate(pairs, target_bytes=SIZE * len(pairs))


def loader(collate_fn: Any) -> Any:
    return DataLoader(PAIRS, batch_size=2, collate_fn=collate_fn)


def trainer(**arguments: Any) -> lightning.Trainer:
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        **{"max_epochs": 1, **arguments},
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )


@pytest.mark.filterwarnings("ignore:The .*_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:The number of training batches")
@pytest.mark.parametrize(
    ("name", "wrong", "message"),
    [
        (
            "fit",
            lambda pairs: tuple(collate(pairs)),
            r"^the data loader yields a tuple, not a dialog\.Batch",
        ),
        (
            "fit",
            lambda pairs: collate(pairs)._replace(target_tokens=7),
            "^target_tokens of a batch is 7, but .* has 5",
        ),
    ],
)
def test_invalid_batches_of_a_loader(module: Build, name: str, wrong: Any, message: str) -> None:
    with pytest.raises(dialog.UserError, match=message):
        getattr(trainer(), name)(
            module(), *([loader(wrong), loader(collate)] if name == "fit" else [loader(wrong)])
        )


@pytest.mark.filterwarnings("ignore:The .*_dataloader' does not have many workers")
@pytest.mark.parametrize(("name", "split"), [("validate", "validation"), ("test", "test")])
def test_without_bytes_only_bits_per_byte_is_left_out(module: Build, name: str, split: str) -> None:
    built = module()
    known = getattr(trainer(), name)(built, loader(collate), verbose=False)[0]
    unknown = getattr(trainer(), name)(built, loader(dialog.collate), verbose=False)[0]
    assert known.pop(f"{split}/bits_per_byte") > 0
    assert unknown == known
    batches: Any = [collate(PAIRS[:2]), *(dialog.collate(PAIRS[:2]) for _ in range(3))]
    partly: Any = DataLoader(batches, batch_size=None)
    assert getattr(trainer(), name)(built, partly, verbose=False)[0] == known


@pytest.mark.filterwarnings("ignore:The .*_dataloader' does not have many workers")
@pytest.mark.filterwarnings("ignore:The number of training batches")
def test_a_found_learning_rate_is_used_with_its_schedule(
    module: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the finder keeps a checkpoint
    used: list[float] = []

    class Watch(Callback):
        def on_before_zero_grad(self, trainer: Any, own: Any, optimizer: Any) -> None:
            used.append(optimizer.param_groups[0]["lr"])

    schedule = {"name": "inverse_sqrt", "warmup_steps": 2}
    built = module(optimizer={"name": "adamw", "lr": 1e-2, "schedule": schedule})
    finder = LearningRateFinder(num_training_steps=30, min_lr=1e-4, max_lr=1.0)
    fitting = trainer(max_epochs=10, callbacks=[finder, Watch()])
    fitting.fit(built, loader(collate), loader(collate))
    found = finder.optimal_lr.suggestion()
    assert found not in (None, 1e-2)
    assert built.lr == built.hparams["optimizer"]["lr"] == found
    assert used[:3] == pytest.approx([found / 2, found, found * (2 / 3) ** 0.5])
