"""Averages follow their formulas, are validated and saved, and do not affect training."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.strategies import FSDPStrategy
from torch import Tensor

import dialog
from dialog.build import build_trainer
from dialog.data.tokenizers.tokenizer import PAD
from dialog.errors import UserError
from dialog.models.seq2seq import Seq2Seq
from dialog.runs.evaluation.evaluate import evaluate
from dialog.runs.train import train
from dialog.training.callbacks.averaging import Averaging, build_averaging, check_not_sharded
from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO

EMA = {"name": "ema", "decay": 0.6}
LAST = {"name": "last", "count": 2}
NAME = "model.encoder.layers.0.self_attention.query.weight"


class Watch(lightning.Callback):
    """Records the weights after each step, and those that are validated."""

    def __init__(self) -> None:
        self.steps: list[Tensor] = []
        self.validated: list[tuple[int, Tensor]] = []

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        self.steps.append(weight(module))

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, *_: object
    ) -> None:
        if trainer.global_step == len(self.steps):
            self.steps.append(weight(module))

    def on_validation_epoch_end(
        self, trainer: lightning.Trainer, module: lightning.LightningModule
    ) -> None:
        if trainer.global_step:
            self.validated.append((trainer.global_step, weight(module)))


def weight(module: lightning.LightningModule) -> Tensor:
    return module.get_parameter(NAME).detach().double().clone()


class Fitted:
    """A network trained for some epochs of four batches, two per step, with a validation after each
    epoch.
    """

    def __init__(
        self,
        network: Callable[..., Seq2Seq],
        data: Path,
        component: dict[str, Any] | None,
        *,
        epochs: int = 3,
        checkpoint: Path | None = None,
        options: Sequence[tuple[str, Any]] = (),
    ) -> None:
        model = network(encoder="transformer", vocabulary=400).float()
        model.encoder.layers[0].feed_forward.requires_grad_(False)
        self.module = dialog.DialogModule(
            model, padding=PAD, optimizer={"name": "adamw", "lr": 0.05}
        )
        self.watch = Watch()
        names = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
        settings: dict[str, Any] = dict.fromkeys(names, False)
        self.trainer = lightning.Trainer(
            accelerator="cpu",
            devices=1,
            max_epochs=epochs,
            limit_train_batches=4,
            limit_val_batches=1,
            num_sanity_val_steps=1,
            accumulate_grad_batches=2,
            callbacks=[self.watch, *([build_averaging(component)] if component else [])],
            plugins=[SafeCheckpointIO()],
            **settings,
            **dict(options),
        )
        batches = dialog.DialogDataModule(data, batch_tokens=1200)
        self.trainer.fit(self.module, batches, ckpt_path=checkpoint, weights_only=True)

    def saved(self, folder: Path) -> dict[str, Any]:
        """Save a checkpoint and return its content."""
        self.trainer.save_checkpoint(folder / "a.ckpt")
        return SafeCheckpointIO().load_checkpoint(folder / "a.ckpt")


def test_ema_follows_its_formula_and_is_validated(
    network: Callable[..., Seq2Seq], prepared: Path, tmp_path: Path
) -> None:
    fitted = Fitted(network, prepared, EMA)
    expected, means = fitted.watch.steps[0], {}
    for step, value in enumerate(fitted.watch.steps[1:], 1):
        decay = min(0.6, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
        means[step] = expected
    assert list(means) == [1, 2, 3, 4, 5, 6]
    assert [step for step, _ in fitted.watch.validated] == [2, 4, 6]
    for step, value in fitted.watch.validated:
        torch.testing.assert_close(value, means[step], rtol=1e-5, atol=1e-6)
    assert torch.equal(weight(fitted.module), fitted.watch.steps[-1])
    kept = fitted.saved(tmp_path)
    torch.testing.assert_close(kept["state_dict"][NAME].double(), means[6], rtol=1e-5, atol=1e-6)
    assert torch.equal(kept["averaging"]["weights"][NAME].double(), fitted.watch.steps[-1])


def test_last_is_the_mean_of_the_last_validations(
    network: Callable[..., Seq2Seq], prepared: Path, tmp_path: Path
) -> None:
    fitted = Fitted(network, prepared, LAST)
    steps = fitted.watch.steps
    expected = {2: steps[2], 4: (steps[2] + steps[4]) / 2, 6: (steps[4] + steps[6]) / 2}
    assert [step for step, _ in fitted.watch.validated] == [2, 4, 6]
    for step, value in fitted.watch.validated:
        torch.testing.assert_close(value, expected[step], rtol=1e-5, atol=1e-6)
    assert torch.equal(weight(fitted.module), steps[-1])
    torch.testing.assert_close(
        fitted.saved(tmp_path)["state_dict"][NAME].double(), expected[6], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("component", [EMA, LAST], ids=["ema", "last"])
def test_training_is_unaffected_and_resumes_exactly(
    network: Callable[..., Seq2Seq], prepared: Path, tmp_path: Path, component: dict[str, Any]
) -> None:
    plain, straight = (Fitted(network, prepared, each) for each in (None, component))
    assert all(map(torch.equal, plain.watch.steps, straight.watch.steps))
    Fitted(network, prepared, component, epochs=2).saved(tmp_path)
    resumed = Fitted(network, prepared, component, checkpoint=tmp_path / "a.ckpt")
    assert all(map(torch.equal, resumed.watch.steps, straight.watch.steps[4:]))
    (tmp_path / "b").mkdir()
    same(straight.saved(tmp_path)["averaging"], resumed.saved(tmp_path / "b")["averaging"])
    one, other = (
        SafeCheckpointIO().load_checkpoint(each / "a.ckpt") for each in (tmp_path, tmp_path / "b")
    )
    same(one["state_dict"], other["state_dict"])
    same(one["optimizer_states"], other["optimizer_states"])


def same(one: Any, other: Any) -> None:
    """Assert bit-equality."""
    assert type(one) is type(other)
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            same(one[key], other[key])
    elif isinstance(one, list):
        for first, second in zip(one, other, strict=True):
            same(first, second)
    else:
        assert torch.equal(one, other) if isinstance(one, Tensor) else one == other


def test_tied_weights_stay_tied_in_a_resumed_run(
    network: Callable[..., Seq2Seq], prepared: Path, tmp_path: Path
) -> None:
    kept = Fitted(network, prepared, EMA, epochs=1).saved(tmp_path)
    names = [f"model.{name}" for name in ("source_embedding.table.weight", "head.weight")]
    assert torch.equal(*(kept["state_dict"][name] for name in names))
    model = Fitted(network, prepared, EMA, epochs=2, checkpoint=tmp_path / "a.ckpt").module.model
    assert (
        model.head.weight
        is model.source_embedding.table.weight
        is model.target_embedding.table.weight
    )


def test_average_moves_in_half_precision(
    network: Callable[..., Seq2Seq], prepared: Path, tmp_path: Path
) -> None:
    """Updates too small for bfloat16 accumulate in float32, also in checkpoints."""
    fitted = Fitted(
        network,
        prepared,
        {"name": "ema", "decay": 0.9999, "warmup": False},
        options=[("precision", "bf16-true")],
    )
    average = fitted.saved(tmp_path)["state_dict"][NAME]
    assert average.dtype == torch.float32
    assert torch.equal(weight(fitted.module), fitted.watch.steps[-1])
    moved, distance = (
        (average.double() - fitted.watch.steps[0]).norm(),
        (fitted.watch.steps[-1] - fitted.watch.steps[0]).norm(),
    )
    assert 1e-4 * distance < moved < 1e-3 * distance


def test_frozen_parameters_are_not_averaged(
    network: Callable[..., Seq2Seq], prepared: Path, tmp_path: Path
) -> None:
    fitted = Fitted(network, prepared, EMA, epochs=1)
    assert not [
        name
        for name in fitted.saved(tmp_path)["averaging"]["weights"]
        if "encoder.layers.0.feed_forward" in name
    ]


def test_validation_without_training_uses_the_weights(
    network: Callable[..., Seq2Seq], prepared: Path
) -> None:
    fitted = Fitted(network, prepared, EMA, epochs=1)
    fitted.trainer.validate(
        fitted.module, dialog.DialogDataModule(prepared, batch_tokens=1200), verbose=False
    )
    assert torch.equal(fitted.watch.validated[-1][1], fitted.watch.steps[-1])


def test_run_keeps_the_best_average(tiny: Callable[..., Any], tmp_path: Path) -> None:
    overrides = [
        "checkpoint.averaging={name: ema, decay: 0.9}",
        "trainer.max_steps=20",
        "trainer.val_check_interval=10",
    ]
    folder = train(tiny("transformer", *overrides), tmp_path / "run", quiet=True).folder
    best = SafeCheckpointIO().load_checkpoint(folder / "checkpoints" / "best.ckpt")
    run = dialog.load(folder)
    for name, value in run.model.state_dict().items():
        assert torch.equal(value, best["state_dict"][f"model.{name}"]), name
    assert not torch.equal(
        run.model.head.weight, best["averaging"]["weights"]["model.source_embedding.table.weight"]
    )
    metrics = evaluate(run, "validation", quiet=True).metrics
    lines = [
        json.loads(line)
        for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    lowest = min(line["validation/loss"] for line in lines if "validation/loss" in line)
    assert lowest == pytest.approx(metrics["nll_nats"] / metrics["tokens"], rel=1e-6)


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ("{name: ema, decay: 1.0}", "ema: decay must be at least 0 and below 1"),
        ("{name: last, count: 0}", "last: count must be at least 1"),
        ("{name: mean}", "unknown average 'mean'"),
    ],
)
def test_invalid_arguments_are_rejected(
    tiny: Callable[..., Any], component: str, message: str
) -> None:
    recipe = tiny("transformer", f"checkpoint.averaging={component}").recipe
    with pytest.raises(UserError, match=rf"^checkpoint\.averaging: {message}"):
        build_trainer(recipe, Path(), [])


def test_sharded_weights_are_not_averaged() -> None:
    with pytest.raises(
        UserError, match=r"^checkpoint\.averaging needs all weights in each process"
    ):
        check_not_sharded(FSDPStrategy())
    assert isinstance(build_averaging(EMA), Averaging)
