"""Training stops before an update that is not finite, names the examples, and keeps good
weights.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from torch import Tensor

import dialog
from dialog.build import build_module, build_trainer
from dialog.data.batching import Batch
from dialog.errors import DivergedError, RunError
from dialog.training import guard
from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO
from dialog.training.guard import Guard

FAMILIES = ["lstm", "transformer"]
AHEAD = pytest.mark.parametrize("ahead", [False, True], ids=["at once", "one step later"])


class Poison(dialog.DialogModule):
    """Loss or gradient is not finite at one micro-batch; records weights and optimizer before and
    after.
    """

    at = 3
    value = torch.nan
    place = "loss"

    def on_train_batch_start(self, batch: Batch, batch_index: int) -> None:
        self.batch = batch
        self.before = snapshot(self)

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        loss = super().training_step(batch, batch_index)
        if batch_index != self.at or self.place == "gradient":
            return loss
        self.step_sums.sums["loss"][0] *= self.value  # the logged value; its gradient stays finite
        return loss if self.place == "loss" else loss * self.value

    def on_after_backward(self) -> None:
        if self.trainer.fit_loop.batch_idx == self.at and self.place == "gradient":
            next(self.parameters()).grad[0, 0] = self.value

    def on_train_batch_end(self, *_: object) -> None:
        self.after = snapshot(self)


def snapshot(module: lightning.LightningModule) -> list[Tensor]:
    state = module.optimizers().state
    moments = [value.clone() for each in state.values() for _, value in sorted(each.items())]
    return [*(each.detach().clone() for each in module.parameters()), *moments]


def built(
    tiny: Callable[..., Any], folder: Path, *overrides: str, family: str = "transformer"
) -> tuple[Poison, lightning.Trainer]:
    settings = ["trainer.max_steps=8", "trainer.val_check_interval=1", *overrides]
    recipe = tiny(family, *settings).recipe
    torch.manual_seed(1)
    module = Poison(dialog.build_model(recipe.model, 400), padding=0, optimizer=recipe.optimizer)
    return module, build_trainer(recipe, folder, [])


@pytest.fixture
def data(prepared: Path) -> dialog.DialogDataModule:
    return dialog.DialogDataModule(prepared, batch_tokens=1200)


@AHEAD
@pytest.mark.parametrize("value", [torch.nan, torch.inf], ids=str)
@pytest.mark.parametrize("place", ["loss", "gradient"])
def test_stops_before_the_update(
    tiny: Callable[..., Any],
    data: dialog.DialogDataModule,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    value: float,
    ahead: bool,
) -> None:
    """Weights, moments and checkpoints are bit-identical to those of the previous step."""
    monkeypatch.setattr(guard, "runs_ahead", lambda values: ahead)
    module, trainer = built(
        tiny, tmp_path, "trainer.val_check_interval=2", "checkpoint.every_n_steps=1"
    )
    module.place, module.value = place, value
    with pytest.raises(RunError, match=r"^step 4: [^\n]*checkpoints are of good steps"):
        trainer.fit(module, data)
    now = snapshot(module)
    expected = module.after if not ahead else module.before
    assert len(now) == len(expected) > len(list(module.parameters()))
    assert all(torch.equal(*pair) for pair in zip(now, expected, strict=True))
    last = SafeCheckpointIO().load_checkpoint(tmp_path / "checkpoints" / "last.ckpt")
    assert last["global_step"] == 3
    weights = {name: each for name, each in last["state_dict"].items() if name.startswith("model.")}
    assert weights.keys() == {f"model.{name}" for name in module.model.state_dict()}
    assert all(torch.equal(each, module.state_dict()[name]) for name, each in weights.items())
    best = SafeCheckpointIO().load_checkpoint(tmp_path / "checkpoints" / "best.ckpt")
    assert best["global_step"] == 2


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_examples_are_named(
    tiny: Callable[..., Any],
    data: dialog.DialogDataModule,
    tmp_path: Path,
    family: str,
    accumulate: int,
) -> None:
    """Examples of all micro-batches whose logits are not finite, here by a token whose embedding is
    NaN.
    """
    settings = [f"trainer.accumulate_grad_batches={accumulate}", "trainer.val_check_interval=8"]
    module, trainer = built(tiny, tmp_path, *settings, family=family)
    data.trainer = trainer  # the batches of a step depend on it
    batches = list(itertools.islice(data.train_dataloader(), 8))
    counts = torch.stack(
        [
            (torch.cat([batch.source, batch.target], 1).flatten()).bincount(minlength=400)
            for batch in batches
        ]
    )
    late = (counts[:accumulate].sum(0) == 0) & (counts[accumulate:].sum(0) > 0)
    token = int(late.nonzero()[0])
    module.at = -1
    with torch.no_grad():
        module.model.source_embedding.table.weight[token] = torch.nan
    # other logits are finite
    module.model.head.weight = torch.nn.Parameter(torch.randn_like(module.model.head.weight))
    with pytest.raises(RunError) as raised:
        trainer.fit(module, data)
    first = int(counts[:, token].nonzero()[0])
    step = first // accumulate
    window = batches[step * accumulate : (step + 1) * accumulate]
    bad = [
        row
        for batch in window
        for row, source, target in zip(batch.rows.tolist(), batch.source, batch.target, strict=True)
        if token in (*source.tolist(), *target.tolist())
    ]
    assert f"step {step + 1}: " in str(raised.value)
    named = str(raised.value).partition("from 0): ")[2].partition(";")[0]
    shown, _, rest = named.partition(" and ")
    assert [int(each) for each in shown.split(", ")] == bad[: guard.SHOWN]
    assert rest == (f"{len(bad) - guard.SHOWN} more" if len(bad) > guard.SHOWN else "")


@AHEAD
def test_last_step_is_checked(
    tiny: Callable[..., Any],
    data: dialog.DialogDataModule,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ahead: bool,
) -> None:
    monkeypatch.setattr(guard, "runs_ahead", lambda values: ahead)
    module, trainer = built(tiny, tmp_path, "trainer.max_steps=4")
    with pytest.raises(RunError, match=r"^step 4: "):
        trainer.fit(module, data)


def test_infinite_validation_is_never_the_best(
    tiny: Callable[..., Any], data: dialog.DialogDataModule, tmp_path: Path
) -> None:
    module, trainer = built(tiny, tmp_path)
    module.at = -1

    def step(*_: object) -> None:
        wrong = torch.inf if trainer.global_step == 3 else 1.0
        module.split_metrics.update(nll=wrong, correct=0, tokens=1, bytes=1)

    module.validation_step = step
    with pytest.raises(DivergedError, match=r"^step 3: the validation loss is inf"):
        trainer.fit(module, data)
    for name in ("best", "last"):
        assert (
            SafeCheckpointIO().load_checkpoint(tmp_path / "checkpoints" / f"{name}.ckpt")[
                "global_step"
            ]
            < 3
        )


@AHEAD
def test_scaler_may_skip_some_steps_in_a_row(
    tiny: Callable[..., Any],
    data: dialog.DialogDataModule,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    ahead: bool,
) -> None:
    monkeypatch.setattr(guard, "runs_ahead", lambda values: ahead)
    monkeypatch.setattr(guard, "SKIPS", 3)
    for bad, fine in (({1, 2, 4, 5}, True), ({1, 2, 3}, False)):
        recipe = tiny("transformer", "trainer.precision=16-mixed", "trainer.max_steps=7").recipe
        trainer = build_trainer(recipe, tmp_path / str(fine), [], [Overflow(bad)])
        if fine:
            trainer.fit(build_module(recipe, 400), data)
            assert trainer.global_step == 7
        else:
            with pytest.raises(RunError, match=r"^step 4 \(the last of 3 steps in a row"):
                trainer.fit(build_module(recipe, 400), data)


class Overflow(lightning.Callback):
    """Makes the gradients of some steps infinite."""

    def __init__(self, steps: set[int]) -> None:
        self.steps = steps

    def on_after_backward(
        self, trainer: lightning.Trainer, module: lightning.LightningModule
    ) -> None:
        if trainer.global_step in self.steps:
            next(module.parameters()).grad.fill_(torch.inf)


def test_guard_works_in_any_trainer(
    tiny: Callable[..., Any], data: dialog.DialogDataModule
) -> None:
    module = Poison(dialog.build_model(tiny("transformer").recipe.model, 400), padding=0)
    options: dict[str, Any] = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
    }
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, max_steps=9, enable_model_summary=False, **options
    )
    with pytest.raises(RunError, match=r"^step 4: loss nan"):
        trainer.fit(module, data)
    assert sum(isinstance(each, Guard) for each in trainer.callbacks) == 1


def test_anomaly_detection_is_torchs(
    tiny: Callable[..., Any], data: dialog.DialogDataModule, tmp_path: Path
) -> None:
    module, trainer = built(tiny, tmp_path, "trainer.detect_anomaly=true")
    module.place = "backward"
    with (
        pytest.warns(UserWarning, match="Error detected"),
        pytest.raises(RuntimeError, match="returned nan values"),
    ):
        trainer.fit(module, data)
