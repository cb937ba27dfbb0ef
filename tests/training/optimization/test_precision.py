"""Precisions: names, what stays in float32, that autocast's cache loses no gradient, and the
gradient scaler.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from operations import Operation, Operations
from torch import Tensor

import dialog
from dialog.build import build_module, build_trainer, for_this_hardware
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import PAD
from dialog.errors import UserError
from dialog.models.seq2seq import Seq2Seq
from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO
from dialog.training.optimization import precision
from dialog.training.optimization.precision import MatmulSpeed, matmul_speed

FAMILIES = ["lstm", "transformer"]


# ------------------------------------------------------------------ names


@pytest.mark.parametrize(
    ("older", "name"),
    [("32", "32-true"), ("bf16", "bf16-mixed"), ("16", "16-mixed"), ("bf16-true", "bf16-true")],
)
def test_older_names_are_resolved(older: str, name: str) -> None:
    assert precision.fitting(older, "cpu") == name


@pytest.mark.parametrize(
    ("accelerator", "setting", "static"),
    [
        ("cpu", "auto", False),
        ("cuda", "auto", True),
        ("cpu", "true", True),
        ("cuda", "false", False),
    ],
)
def test_shapes_are_static_by_default_on_cuda_only(
    tiny: Callable[..., Any], accelerator: str, setting: str, static: bool
) -> None:
    changes = (f"trainer.accelerator={accelerator}", f"data.static_shapes={setting}")
    assert for_this_hardware(tiny("lstm", *changes).recipe).data.static_shapes is static


def test_unknown_static_shapes_are_an_error(tiny: Callable[..., Any]) -> None:
    with pytest.raises(UserError, match=r"data\.static_shapes.*'some'"):
        for_this_hardware(tiny("lstm", "data.static_shapes=some").recipe)


@pytest.mark.parametrize(
    ("in_hardware", "bfloat16", "expected"),
    [(True, 7.0, "bf16-mixed"), (True, 0.6, "32-true"), (False, 7.0, "32-true")],
)
def test_auto_is_the_faster_precision(
    in_hardware: bool,
    bfloat16: float,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(precision, "has_bfloat16", lambda device: in_hardware)
    monkeypatch.setattr(
        precision, "matmul_speed", lambda: MatmulSpeed(float32=1.0, bfloat16=bfloat16)
    )
    with caplog.at_level(logging.INFO, logger="dialog"):
        assert precision.fitting("auto", "cpu") == expected
    assert [expected in each.message for each in caplog.records] == [True]


def test_the_speed_of_products_is_measured_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path))
    first = matmul_speed()
    assert min(first) > 1e8
    monkeypatch.setattr(precision, "_speed", None)
    assert matmul_speed() == first
    (tmp_path / "matmul-speed.json").write_text("{", encoding="utf-8")
    monkeypatch.undo()
    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path))
    assert min(matmul_speed()) > 1e8


def test_other_work_on_the_processor_does_not_choose_a_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path))
    measured = []

    def busy_at_first(dtype: torch.dtype) -> float:
        measured.append(dtype)
        return {torch.float32: 120e9, torch.bfloat16: 80e9}[dtype] / (
            3 if len(measured) == 1 else 1
        )

    monkeypatch.setattr(precision, "_speed", busy_at_first)
    assert matmul_speed() == MatmulSpeed(float32=120e9, bfloat16=80e9)


@pytest.mark.parametrize("name", ["16-true", "transformer-engine", "31"])
def test_unknown_precisions_are_errors_of_one_line(name: str) -> None:
    with pytest.raises(UserError, match=r"^trainer\.precision: [^\n]*$"):
        precision.fitting(name, "cpu")


@pytest.mark.parametrize("name", ["bf16-mixed", "bf16-true", "16-mixed", "32-true"])
def test_emulated_precisions_are_warned_of(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for kind in ("bfloat16", "float16"):
        monkeypatch.setattr(precision, f"has_{kind}", lambda device: False)
    with caplog.at_level(logging.WARNING, logger="dialog"):
        precision.warn_emulated(name, "cpu")
    assert [name in each.message for each in caplog.records] == (
        [] if name == "32-true" else [True]
    )


# ------------------------------------------------------------------ training


@pytest.mark.parametrize("family", FAMILIES)
def test_bfloat16_weights_are_validated_exactly(
    tiny: Callable[..., Any], prepared: Path, tmp_path: Path, family: str
) -> None:
    """Validation sums are float64, not the weights' dtype: in bfloat16, 256 + 1 is 256."""
    metrics = {}
    for name in ("32-true", "bf16-true"):
        steps = [
            f"trainer.{key}"
            for key in ("max_steps=3", "val_check_interval=3", "log_every_n_steps=1")
        ]
        recipe = tiny(family, f"trainer.precision={name}", *steps).recipe
        module = build_module(recipe, 400)
        trainer = build_trainer(recipe, tmp_path / name, [])
        trainer.fit(module, dialog.DialogDataModule(prepared, batch_tokens=1200))
        metrics[name] = {key: value.item() for key, value in trainer.callback_metrics.items()}
        assert {parameter.dtype for parameter in module.parameters()} == {
            torch.bfloat16 if name == "bf16-true" else torch.float32
        }
        assert metrics[name]["validation/loss"] == pytest.approx(
            exact_loss(module, prepared), rel=1e-5
        )
    for key in ("train/loss", "train/gradient_norm", "validation/loss"):
        assert metrics["bf16-true"][key] == pytest.approx(metrics["32-true"][key], rel=0.05)
        assert metrics["bf16-true"][key] != metrics["32-true"][key]


def exact_loss(module: dialog.DialogModule, folder: Path) -> float:
    """The validation loss, in float64 from the logits on."""
    nll = tokens = 0.0
    module.eval()
    for batch in dialog.DialogDataModule(folder, batch_tokens=1200).val_dataloader():
        with torch.no_grad():
            scores = module(batch).double().log_softmax(-1)
        real = batch.target[:, 1:]
        nll -= scores.gather(-1, real.unsqueeze(-1)).squeeze(-1)[real != PAD].sum().item()
        tokens += batch.target_tokens
    return nll / tokens


# ------------------------------------------------------------------ autocast's cache


class Casts(Operations):
    """Counts how often each tensor is cast to bfloat16."""

    def __init__(self) -> None:
        super().__init__(self.count)
        self.counts: Counter[tuple[int, torch.Size]] = Counter()
        self.tensors: list[Tensor] = []  # kept alive, so that no two have the same address

    def count(self, operation: Operation) -> None:
        if (
            operation.call is torch.ops.aten._to_copy.default
            and operation.options.get("dtype") == torch.bfloat16
        ):
            tensor = operation.arguments[0]
            self.counts[tensor.data_ptr(), tensor.shape] += 1
            self.tensors.append(tensor)


class Counted(dialog.DialogModule):
    """Counts the casts in the forward pass of its longest training step."""

    casts: Casts
    length = 0

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        assert torch.is_autocast_enabled("cpu")
        assert torch.is_autocast_cache_enabled()
        with Casts() as casts:
            loss = super().training_step(batch, batch_index)
        if batch.target.shape[1] > self.length:
            self.length, self.casts = batch.target.shape[1], casts
        return loss


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_cast_once_a_step(
    tiny: Callable[..., Any], prepared: Path, tmp_path: Path, family: str
) -> None:
    recipe = tiny(family, "trainer.precision=bf16-mixed", "trainer.max_steps=5").recipe
    module = Counted(dialog.build_model(recipe.model, 400), padding=PAD)
    data = dialog.DialogDataModule(prepared, batch_tokens=1200)
    build_trainer(recipe, tmp_path, []).fit(module, data)
    weights = [
        module.casts.counts[weight.data_ptr(), weight.shape] for weight in module.model.parameters()
    ]
    assert max(weights) == 1
    assert module.length > 9
    assert max(module.casts.counts.values()) < 6, "a tensor is cast for each token"


@pytest.mark.parametrize("objectives", [[], [{"name": "denoising"}]], ids=["alone", "joint"])
@pytest.mark.parametrize("sampled", [False, True], ids=["greedy", "sampled"])
@pytest.mark.parametrize("head", ["vocabulary", "pointer_generator"])
@pytest.mark.parametrize("decoder", ["lstm", "lstm_luong", "transformer"])
def test_predictions_without_a_gradient_take_none_away(
    network: Callable[..., Seq2Seq],
    batch: Callable[..., Batch],
    decoder: str,
    head: str,
    sampled: bool,
    objectives: list[dict[str, Any]],
) -> None:
    """Predictions are made without a gradient, by cast weights that autocast may then cache without
    one.
    """
    forcing = {"name": "constant", "ratio": 0.5, "sampled": sampled}
    model = network(decoder, head={"name": head}, tie_embeddings="none").float()
    module = dialog.DialogModule(model, padding=PAD, teacher_forcing=forcing, objectives=objectives)
    gradients = []
    for autocast in (False, True):
        torch.manual_seed(3)
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast), Casts() as casts:
            loss = module.training_step(batch(), 0)
        model.zero_grad()
        loss.backward()
        gradients.append({name: parameter.grad for name, parameter in model.named_parameters()})
    for name, exact in gradients[0].items():
        assert exact is not None
        assert gradients[1][name] is not None, name
        assert bool(gradients[1][name].any()) is bool(exact.any()), name
    counts = [casts.counts[weight.data_ptr(), weight.shape] for weight in model.parameters()]
    assert max(counts) <= 1 + len(objectives), "cast for each token, not once for each pass"


# ------------------------------------------------------------------ the scaler


class Overflow(lightning.Callback):
    """Makes the gradients of some steps infinite, as too large a scale does."""

    def __init__(self, steps: set[int]) -> None:
        self.steps = steps
        self.weights: list[Tensor] = []
        self.scales: list[float] = []

    def on_after_backward(
        self, trainer: lightning.Trainer, module: lightning.LightningModule
    ) -> None:
        if trainer.global_step in self.steps:
            next(module.parameters()).grad.fill_(torch.inf)

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, *_: object
    ) -> None:
        self.weights.append(next(module.parameters()).detach().clone())
        self.scales.append(trainer.precision_plugin.scaler.get_scale())


def test_a_skipped_step_changes_no_weight(
    tiny: Callable[..., Any], prepared: Path, tmp_path: Path
) -> None:
    """The step counts, since its batch was used and the schedule advanced; the lower scale is in
    the checkpoint.
    """
    recipe = tiny("transformer", "trainer.precision=16-mixed", "trainer.max_steps=4").recipe
    data = dialog.DialogDataModule(prepared, batch_tokens=1200)
    first = Overflow({1, 2})
    trainer = build_trainer(recipe, tmp_path, [], [first])
    trainer.fit(build_module(recipe, 400), data)
    assert trainer.global_step == 4
    assert [torch.equal(*pair) for pair in zip(first.weights, first.weights[1:], strict=False)] == [
        True,
        True,
        False,
    ]
    assert first.scales == [2.0**16, 2.0**15, 2.0**14, 2.0**14]
    assert trainer.lr_scheduler_configs[0].scheduler.last_epoch == 4
    checkpoint = SafeCheckpointIO().load_checkpoint(tmp_path / "checkpoints" / "last.ckpt")
    plugin = precision.precision_plugin("16-mixed", "cpu")
    assert plugin is not None
    plugin.load_state_dict(checkpoint[type(plugin).__qualname__])  # as Lightning does
    assert plugin.state_dict()["scale"] == 2.0**14


def test_matrix_products_have_the_precision_of_the_recipe(tmp_path: Path) -> None:
    try:
        for name in ("high", "highest"):
            build_trainer(
                dialog.compose(
                    "quickstart/lstm_bahdanau", [f"trainer.float32_matmul_precision={name}"]
                ).recipe,
                tmp_path,
                [],
            )
            assert torch.get_float32_matmul_precision() == name
    finally:
        torch.set_float32_matmul_precision("highest")
    with pytest.raises(
        UserError, match="float32_matmul_precision must be one of highest, high, medium, not 'tf32'"
    ):
        precision.use_matmul_precision("tf32")
