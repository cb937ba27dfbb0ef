"""The DialogModule in a Trainer: validation and what is logged, gradients, learning rates and mixed
precision.
"""

from __future__ import annotations

import json
import math
from argparse import Namespace
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger

import dialog
from dialog.build import build_trainer
from dialog.runs.evaluation.evaluate import evaluate

CLIP = 0.05
FAMILIES = ["lstm", "transformer"]
SMOOTHINGS = [{"name": "cross_entropy", "label_smoothing": smoothing} for smoothing in (0.0, 0.4)]
Build = Callable[..., dialog.DialogModule]


class Record(Logger):
    """Keeps the logged metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[int | None, dict[str, float]]] = []

    name = version = "record"

    def log_hyperparams(
        self, params: dict[str, Any] | Namespace, *args: object, **kwargs: object
    ) -> None: ...

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.lines.append((step, dict(metrics)))

    def __getitem__(self, name: str) -> list[float]:
        return [metrics[name] for _, metrics in self.lines if name in metrics]


def plain_trainer(record: Record | None = None, **options: Any) -> lightning.Trainer:
    """A Trainer without any of this package's parts."""
    settings: dict[str, Any] = {
        "max_epochs": 1,
        "num_sanity_val_steps": 0,
        "log_every_n_steps": 1,
    } | options
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        logger=record or False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    )


# ------------------------------------------------------------------ validation and logging


@pytest.mark.parametrize("family", FAMILIES)
def test_training_in_a_plain_trainer(
    module: Build, data: dialog.DialogDataModule, family: str
) -> None:
    built = module(family)
    before = {name: value.clone() for name, value in built.model.state_dict().items()}
    trainer = plain_trainer(limit_train_batches=4)
    first = trainer.validate(built, data, verbose=False)[0]
    trainer.fit(built, data)
    last = trainer.validate(built, data, verbose=False)[0]
    assert last["validation/loss"] < first["validation/loss"]
    assert first["validation/loss"] == pytest.approx(math.log(400), abs=0.5)  # untrained
    assert first["validation/perplexity"] == pytest.approx(
        math.exp(first["validation/loss"]), rel=1e-5
    )
    weights = {name: value for name, value in built.model.state_dict().items() if "weight" in name}
    assert not any(torch.equal(value, before[name]) for name, value in weights.items())


@pytest.mark.parametrize("family", FAMILIES)
def test_validation_agrees_with_evaluation(trained: Callable[[str], Path], family: str) -> None:
    """The best validation that was logged is what `evaluate` measures with the best weights."""
    run = dialog.load(trained(family))
    metrics = evaluate(run, "validation", quiet=True).metrics
    lines = [
        json.loads(line)
        for line in (run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    best = min(
        (line for line in lines if "validation/loss" in line),
        key=lambda line: line["validation/loss"],
    )
    assert best["validation/loss"] == pytest.approx(
        metrics["nll_nats"] / metrics["tokens"], rel=1e-6
    )
    assert best["validation/bits_per_byte"] == pytest.approx(metrics["bits_per_byte"], rel=1e-6)
    assert best["validation/perplexity"] == pytest.approx(metrics["perplexity_token"], rel=1e-6)
    assert best["validation/token_accuracy"] == pytest.approx(metrics["token_accuracy"], rel=1e-6)


def test_batch_size_does_not_change_validation(module: Build, prepared: Path) -> None:
    built, trainer = module().double(), plain_trainer(precision="64-true")
    small, large = (
        trainer.validate(
            built, dialog.DialogDataModule(prepared, batch_tokens=budget), verbose=False
        )[0]
        for budget in (150, 10**6)
    )
    assert small == pytest.approx(large, rel=1e-6)  # Lightning logs in float32
    assert small["validation/bits_per_byte"] > 0


def test_the_logged_loss_is_not_smoothed(module: Build, data: dialog.DialogDataModule) -> None:
    logged = []
    for loss in SMOOTHINGS:
        record, built = Record(), module(loss=loss)
        plain_trainer(record, limit_train_batches=1).fit(built, data)
        logged.append(record["train/loss"][0])
        assert built.target_tokens > 0
    assert logged[0] == logged[1]


def test_validation_is_not_smoothed(module: Build, data: dialog.DialogDataModule) -> None:
    plain, smooth = (
        plain_trainer().validate(module(loss=loss), data, verbose=False)[0] for loss in SMOOTHINGS
    )
    assert plain == smooth


def test_a_validation_that_is_not_finite_is_logged(
    module: Build, data: dialog.DialogDataModule
) -> None:
    built = module()
    with torch.no_grad():
        built.model.head.weight.fill_(math.nan)
    metrics = plain_trainer().validate(built, data, verbose=False)[0]
    assert math.isnan(metrics["validation/loss"])
    assert math.isnan(metrics["validation/bits_per_byte"])


def test_a_logged_step_is_an_optimizer_step(
    tiny: Callable[..., Any], module: Build, data: dialog.DialogDataModule, tmp_path: Path
) -> None:
    record, steps, built = Record(), 4, module()
    settings = [
        f"trainer.max_steps={steps}",
        "trainer.accumulate_grad_batches=3",
        "trainer.log_every_n_steps=1",
    ]
    trainer = build_trainer(tiny("lstm", *settings).recipe, tmp_path, [record])
    trainer.fit(built, data)
    lines = [(step, line) for step, line in record.lines if "train/loss" in line]
    assert trainer.global_step == steps
    assert len(lines) == steps
    assert [b - a for (a, _), (b, _) in pairwise(lines)] == [1] * (steps - 1)
    batches = iter(data.train_dataloader())
    tokens = sum(next(batches).target_tokens for _ in range(3 * steps))
    assert lines[-1][1]["train/tokens"] == built.target_tokens == tokens


# ------------------------------------------------------------------ gradients


class Norms(Callback):
    """Records the norms of the gradient before clipping and in the optimizer."""

    def __init__(self) -> None:
        self.before: list[float] = []
        self.used: list[float] = []

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        trainer.optimizers[0].register_step_post_hook(lambda *_: self.used.append(norm(module)))

    def on_before_optimizer_step(
        self,
        trainer: lightning.Trainer,
        module: lightning.LightningModule,
        optimizer: torch.optim.Optimizer,
    ) -> None:
        self.before.append(norm(module))


def norm(module: lightning.LightningModule) -> float:
    parts = [
        parameter.grad.norm() for parameter in module.parameters() if parameter.grad is not None
    ]
    return float(torch.stack(parts).norm())


@pytest.mark.parametrize("clip", [CLIP, None])
def test_the_gradient_is_clipped_and_its_norm_logged(
    module: Build, data: dialog.DialogDataModule, clip: float | None
) -> None:
    record, norms = Record(), Norms()
    plain_trainer(record, callbacks=[norms], limit_train_batches=3, gradient_clip_val=clip).fit(
        module(), data
    )
    assert min(norms.before) > CLIP
    assert norms.used == (norms.before if clip is None else pytest.approx([clip] * 3, rel=1e-4))
    assert record["train/gradient_norm"] == pytest.approx(norms.before, rel=1e-5)


def test_the_gradient_is_clipped_by_value(module: Build, data: dialog.DialogDataModule) -> None:
    record, norms, largest = Record(), Norms(), []
    built, limit = module(), 1e-3

    class Largest(Callback):
        def on_train_start(
            self, trainer: lightning.Trainer, module: lightning.LightningModule
        ) -> None:
            trainer.optimizers[0].register_step_post_hook(
                lambda *_: largest.append(largest_entry(module))
            )

    clipping = {"gradient_clip_val": limit, "gradient_clip_algorithm": "value"}
    plain_trainer(record, callbacks=[norms, Largest()], limit_train_batches=2, **clipping).fit(
        built, data
    )
    assert largest == pytest.approx([limit] * 2)
    assert min(norms.used) > limit, "clipped by norm"
    assert record["train/gradient_norm"] == pytest.approx(norms.before, rel=1e-5)


def largest_entry(module: lightning.LightningModule) -> float:
    return max(
        float(parameter.grad.abs().max())
        for parameter in module.parameters()
        if parameter.grad is not None
    )


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_clipping_with_a_fused_optimizer_in_mixed_precision(
    tiny: Callable[..., Any],
    module: Build,
    data: dialog.DialogDataModule,
    tmp_path: Path,
    precision: str,
    family: str,
) -> None:
    losses, logged_norms = {}, {}
    for name in ("32-true", precision):
        record, norms = Record(), Norms()
        settings = [
            f"trainer.precision={name}",
            "trainer.max_steps=2",
            f"trainer.gradient_clip_val={CLIP}",
        ]
        recipe = tiny(
            family, *settings, "trainer.log_every_n_steps=1", "trainer.limit_val_batches=1"
        ).recipe
        trainer = build_trainer(recipe, tmp_path / name, [record], [norms])
        trainer.fit(module(family), data)
        assert trainer.optimizers[0].defaults["fused"]
        assert norms.used == pytest.approx([CLIP] * 2, rel=1e-3)
        losses[name], logged_norms[name] = record["train/loss"], record["train/gradient_norm"]
    assert losses[precision] == pytest.approx(losses["32-true"], rel=0.02)
    assert losses[precision] != losses["32-true"]
    assert logged_norms[precision] == pytest.approx(logged_norms["32-true"], rel=0.1), (
        "the norm of a scaled loss"
    )


# ------------------------------------------------------------------ learning rate


def test_inverse_square_root_schedule(module: Build, data: dialog.DialogDataModule) -> None:
    record = Record()
    schedule = {"name": "inverse_sqrt", "warmup_steps": 3}
    built = module(optimizer={"name": "adamw", "lr": 0.01, "schedule": schedule})
    plain_trainer(record, max_epochs=2, limit_train_batches=4, limit_val_batches=0).fit(built, data)
    expected = [0.01 * min(step / 3, math.sqrt(3 / step)) for step in range(1, 9)]
    assert record["train/learning_rate"] == pytest.approx(expected, rel=1e-6)
    assert max(expected) == expected[2] == 0.01


@pytest.mark.parametrize(
    "validations", [{"max_epochs": 8}, {"max_epochs": 2, "val_check_interval": 0.25}]
)
def test_plateau_counts_validations(
    scripted: Build, data: dialog.DialogDataModule, validations: dict[str, Any]
) -> None:
    """The rate falls after patience + 1 validations without a new lowest loss, even with several in
    an epoch.
    """
    record, losses = Record(), [3.0, 2.0, 2.5, 2.1, 1.0, 1.5, 1.5, 9.0]
    schedule = {"name": "plateau", "factor": 0.1, "patience": 1}
    built = scripted(losses, optimizer={"name": "adamw", "lr": 0.01, "schedule": schedule})
    batches = 4 if len(validations) > 1 else 1  # one between two validations
    plain_trainer(record, limit_train_batches=batches, limit_val_batches=1, **validations).fit(
        built, data
    )
    assert record["validation/loss"] == pytest.approx(losses)
    assert record["train/learning_rate"] == pytest.approx([1e-2] * 4 + [1e-3] * 3 + [1e-4])


def test_plateau_counts_validations_in_training_only(
    scripted: Build, data: dialog.DialogDataModule
) -> None:
    schedule = {"name": "plateau", "patience": 0}
    built = scripted(
        [1.0, 2.0, 3.0, 4.0], optimizer={"name": "adamw", "lr": 0.01, "schedule": schedule}
    )
    trainer = plain_trainer(limit_train_batches=1, limit_val_batches=1, num_sanity_val_steps=1)
    trainer.fit(built, data)  # the first loss is of the sanity check
    for _ in range(2):
        trainer.validate(built, data, verbose=False)
    assert trainer.optimizers[0].param_groups[0]["lr"] == 0.01
