"""A checkpoint alone gives the module that was saved; it is tested, answers and trains in any
Trainer.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import lightning
import numpy as np
import pytest
import torch

import dialog
from dialog.models.inference import prepare
from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO

Build = Callable[..., dialog.DialogModule]
SETTINGS: dict[str, Any] = {
    "optimizer": {"name": "adamw", "lr": np.float64(0.01), "schedule": {"name": "cosine"}},
    "loss": {"name": "cross_entropy", "label_smoothing": 0.1},
    "teacher_forcing": {"name": "constant", "ratio": 0.5},
    "objectives": [{"name": "reverse", "weight": 0.2}],
    "search": {"name": "greedy", "max_length": 5},
}


def plain_trainer(**options: Any) -> lightning.Trainer:
    """A Trainer without any of this package's parts."""
    settings: dict[str, Any] = {
        "max_epochs": 1,
        "num_sanity_val_steps": 0,
        "limit_train_batches": 2,
    } | options
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    )


def save(module: dialog.DialogModule, data: dialog.DialogDataModule, path: Path) -> Path:
    """Train two steps in a plain Trainer, and save."""
    trainer = plain_trainer()
    trainer.fit(module, data)
    trainer.save_checkpoint(path)
    return path


def rewrite(path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    checkpoint = torch.load(path, weights_only=True)
    change(checkpoint)
    torch.save(checkpoint, path)
    return path


@pytest.mark.parametrize("family", ["lstm", "transformer"])
def test_checkpoint_alone_gives_the_module(
    module: Build, data: dialog.DialogDataModule, tmp_path: Path, family: str
) -> None:
    saved = module(family, **SETTINGS)
    saved.model.source_embedding.requires_grad_(False)
    path = save(saved, data, tmp_path / "plain.ckpt")
    loaded = dialog.DialogModule.load_from_checkpoint(path)
    assert loaded.hparams == saved.hparams
    assert loaded.hparams["optimizer"]["lr"] == 0.01
    assert loaded.target_tokens == saved.target_tokens > 0
    weights = zip(loaded.named_parameters(), saved.named_parameters(), strict=True)
    for (name, value), (saved_name, saved_value) in weights:
        assert name == saved_name
        assert torch.equal(value, saved_value)
        assert value.requires_grad == saved_value.requires_grad
    assert plain_trainer().test(loaded, data, verbose=False) == plain_trainer().test(
        saved, data, verbose=False
    )
    plain_trainer(max_epochs=2).fit(loaded, data, ckpt_path=path, weights_only=True)
    assert loaded.target_tokens > saved.target_tokens
    replaced = dialog.DialogModule.load_from_checkpoint(
        path, optimizer={"name": "sgd", "lr": 0.5}, objectives=()
    )
    assert replaced.hparams["optimizer"] == {"name": "sgd", "lr": 0.5}


def test_checkpoint_of_a_run_answers_alone(
    trained: Callable[[str], Path], data: dialog.DialogDataModule, tmp_path: Path
) -> None:
    """Test metrics and responses are those of `dialog evaluate`."""
    run = trained("transformer")
    module = dialog.DialogModule.load_from_checkpoint(
        shutil.copy(run / "checkpoints" / "best.ckpt", tmp_path)
    )
    (tested,) = plain_trainer().test(module, data, verbose=False)
    metrics = json.loads((run / "evaluation" / "test" / "metrics.json").read_text(encoding="utf-8"))
    assert tested["test/bits_per_byte"] == pytest.approx(metrics["bits_per_byte"], rel=1e-5)
    assert tested["test/perplexity"] == pytest.approx(metrics["perplexity_token"], rel=1e-5)
    assert tested["test/token_accuracy"] == pytest.approx(metrics["token_accuracy"], rel=1e-5)
    batches = plain_trainer().predict(module, data)
    assert batches is not None
    answers = sorted(answer for batch in batches for answer in batch)
    lines = (
        (run / "evaluation" / "test" / "responses.jsonl").read_text(encoding="utf-8").splitlines()
    )
    assert [(answer.row, answer.text) for answer in answers] == [
        (row, json.loads(line)["response"]) for row, line in enumerate(lines)
    ]
    torch.nn.init.constant_(next(module.parameters()), float("nan"))
    with pytest.raises(
        dialog.UserError, match=r"^predict: the scores of the model are not numbers"
    ):
        plain_trainer().predict(module, data)


def test_predict_prepares_the_network_once(
    trained: Callable[[str], Path], data: dialog.DialogDataModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = dialog.DialogModule.load_from_checkpoint(
        trained("transformer") / "checkpoints" / "best.ckpt"
    )
    watched = Mock(wraps=prepare)
    monkeypatch.setattr(sys.modules[prepare.__module__], "prepare", watched)
    batches = plain_trainer().predict(module, data)
    assert batches is not None
    assert len(batches) > 1
    assert watched.call_count == 1


def test_predict_without_a_tokenizer(module: Build, data: dialog.DialogDataModule) -> None:
    with pytest.raises(
        dialog.UserError, match=r"^predict: the module has no tokenizer; pass DialogModule\("
    ):
        plain_trainer().predict(module(), data)


def test_old_checkpoint_resumes_but_does_not_load_alone(
    module: Build, data: dialog.DialogDataModule, tmp_path: Path
) -> None:
    path = save(module(), data, tmp_path / "old.ckpt")
    rewrite(
        path,
        lambda checkpoint: [
            checkpoint.pop(key) for key in ("hyper_parameters", "tokenizer", "frozen")
        ],
    )
    with pytest.raises(
        dialog.UserError, match=rf"^{path}: has no hyperparameters of its network: an older version"
    ):
        dialog.DialogModule.load_from_checkpoint(path)
    resumed = module()
    plain_trainer(max_epochs=2).fit(resumed, data, ckpt_path=path, weights_only=True)
    given = dialog.DialogModule.load_from_checkpoint(path, model=module().model, padding=0)
    assert resumed.target_tokens > given.target_tokens > 0


def test_checkpoint_runs_no_code(
    module: Build, data: dialog.DialogDataModule, tmp_path: Path
) -> None:
    evil = {"name": "os.system", "command": f"touch {tmp_path / 'touched'}"}
    path = save(module(), data, tmp_path / "evil.ckpt")
    rewrite(path, lambda checkpoint: checkpoint["hyper_parameters"]["model"].update(encoder=evil))
    with pytest.raises(dialog.UserError, match=rf"^{path}: imports 'os\.system'"):
        dialog.DialogModule.load_from_checkpoint(path, weights_only=False)
    assert not (tmp_path / "touched").exists()


def test_damaged_checkpoint_is_rejected(
    module: Build, data: dialog.DialogDataModule, tmp_path: Path
) -> None:
    path = save(module(), data, tmp_path / "half.ckpt")
    path.write_bytes(path.read_bytes()[:-1000])
    with pytest.raises(dialog.UserError, match=rf"^{path}: damaged"):
        dialog.DialogModule.load_from_checkpoint(path)
    with pytest.raises(dialog.UserError, match="does not exist"):
        dialog.DialogModule.load_from_checkpoint(tmp_path / "missing.ckpt")


def test_hyperparameters_are_plain(module: Build) -> None:
    with pytest.raises(
        dialog.UserError, match=r"^optimizer\.lr is a function; give a string, a number"
    ):
        module(optimizer={"name": "adamw", "lr": SafeCheckpointIO.save_checkpoint})


def test_networks_arguments_build_it_again(module: Build) -> None:
    model = module().model
    assert (
        type(model)(**model.arguments).arguments
        == model.arguments
        == json.loads(json.dumps(model.arguments))
    )


def test_subclass_network_is_not_stored(module: Build) -> None:
    class Own(dialog.Seq2Seq):
        pass

    assert dialog.DialogModule(Own(**module().model.arguments), padding=0).hparams["model"] is None
