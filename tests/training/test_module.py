"""Training is what it says it is: losses, norms, learning rates, precision and checkpoints, seen through a Trainer."""

from __future__ import annotations

import hashlib
import json
import math
from argparse import Namespace
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import Callback
from lightning.pytorch.loggers import Logger
from torch.nn import functional as F

import dialog
from dialog.build import build_trainer
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import PAD
from dialog.errors import UserError
from dialog.runs.evaluate import evaluate
from dialog.training.checkpoints.checkpoint_io import BEST, LAST, MANIFEST, PREVIOUS, SafeCheckpointIO
from dialog.training.losses import CrossEntropy

CLIP = 0.05
FAMILIES = ["lstm", "transformer"]


class Notes(Logger):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[int | None, dict[str, float]]] = []

    name = version = "notes"

    def log_hyperparams(self, params: dict[str, Any] | Namespace, *args: object, **kwargs: object) -> None: ...

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.lines.append((step, dict(metrics)))

    def __getitem__(self, name: str) -> list[float]:
        return [metrics[name] for _, metrics in self.lines if name in metrics]


def users_own(notes: Notes | None = None, **options: Any) -> lightning.Trainer:  # noqa: ANN401 - Lightning's arguments
    """A Trainer that knows nothing of this house."""
    settings: dict[str, Any] = {"max_epochs": 1, "num_sanity_val_steps": 0, "log_every_n_steps": 1} | options
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        logger=notes or False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        **settings,
    )


@pytest.fixture
def module(tiny: Callable[..., Any]) -> Callable[..., dialog.DialogModule]:
    def build(
        family: str = "transformer",
        kind: type[dialog.DialogModule] = dialog.DialogModule,
        **options: Any,  # noqa: ANN401 - the constructor's arguments
    ) -> dialog.DialogModule:
        torch.manual_seed(1)
        return kind(dialog.build_model(tiny(family).recipe.model, 400), padding=PAD, **options)

    return build


@pytest.fixture
def data(prepared: Path) -> dialog.DialogDataModule:
    return dialog.DialogDataModule(prepared, batch_tokens=1200)


class Scripted(dialog.DialogModule):
    """Its validations say what they are told to."""

    script: Iterator[float] = iter(())

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        if batch_index == 0:
            self.sums.add(torch.tensor(next(self.script)), torch.tensor(0.0), 1, 1)


# ------------------------------------------------------------------ anyone's Trainer


@pytest.mark.parametrize("family", FAMILIES)
def test_in_anyones_trainer(module: Callable[..., Any], data: dialog.DialogDataModule, family: str) -> None:
    made = module(family)
    before = {name: value.clone() for name, value in made.model.state_dict().items()}
    trainer = users_own(limit_train_batches=4)
    first = trainer.validate(made, data, verbose=False)[0]
    trainer.fit(made, data)
    last = trainer.validate(made, data, verbose=False)[0]
    assert last["validation/loss"] < first["validation/loss"]
    assert first["validation/loss"] == pytest.approx(math.log(400), abs=0.5)  # it knows nothing yet
    assert first["validation/perplexity"] == pytest.approx(math.exp(first["validation/loss"]), rel=1e-5)
    assert all(
        not torch.equal(value, before[name]) for name, value in made.model.state_dict().items() if "weight" in name
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_validation_is_the_evaluation(trained: Callable[[str], Path], family: str) -> None:
    """The best line of the record is what the best weights get from the evaluation."""
    run = dialog.load(trained(family))
    metrics = evaluate(run, "validation", quiet=True)
    lines = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    best = min((line for line in lines if "validation/loss" in line), key=lambda line: line["validation/loss"])
    assert best["validation/loss"] == pytest.approx(metrics["nll_nats"] / metrics["tokens"], rel=1e-6)
    assert best["validation/bits_per_byte"] == pytest.approx(metrics["bits_per_byte"], rel=1e-6)
    assert best["validation/perplexity"] == pytest.approx(metrics["perplexity_token"], rel=1e-6)
    assert best["validation/token_accuracy"] == pytest.approx(metrics["token_accuracy"], rel=1e-6)


def test_batches_do_not_change_the_validation_loss(module: Callable[..., Any], prepared: Path) -> None:
    made, trainer = module().double(), users_own(precision="64-true")
    small, large = (
        trainer.validate(made, dialog.DialogDataModule(prepared, batch_tokens=budget), verbose=False)[0]
        for budget in (150, 10**6)
    )
    assert small == pytest.approx(large, rel=1e-6)  # Lightning keeps what is logged in float32
    assert small["validation/bits_per_byte"] > 0


@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_the_loss_is_torchs(smoothing: float) -> None:
    torch.manual_seed(1)
    logits, targets = torch.randn(7, 11).double(), torch.randint(11, (7,))
    objective, nll = CrossEntropy(label_smoothing=smoothing)(logits, targets)
    expected = F.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    assert objective.item() == pytest.approx(expected.item(), rel=1e-12)
    assert nll.item() == pytest.approx(F.cross_entropy(logits, targets, reduction="sum").item(), rel=1e-12)


def test_what_is_logged_is_never_smoothed(module: Callable[..., Any], data: dialog.DialogDataModule) -> None:
    logged = []
    for smoothing in (0.0, 0.4):
        notes = Notes()
        made = module(loss={"name": "cross_entropy", "label_smoothing": smoothing})
        users_own(notes, limit_train_batches=1).fit(made, data)
        logged.append(notes["train/loss"][0])
        assert made.target_tokens > 0
    assert logged[0] == logged[1]


def test_validation_is_never_smoothed(module: Callable[..., Any], data: dialog.DialogDataModule) -> None:
    plain, smooth = (
        users_own().validate(module(loss={"name": "cross_entropy", "label_smoothing": smoothing}), data, verbose=False)[
            0
        ]
        for smoothing in (0.0, 0.4)
    )
    assert plain == smooth


def test_a_validation_that_is_not_finite_says_so(module: Callable[..., Any], data: dialog.DialogDataModule) -> None:
    made = module()
    with torch.no_grad():
        made.model.head.weight.fill_(math.nan)
    found = users_own().validate(made, data, verbose=False)[0]
    assert math.isnan(found["validation/loss"])
    assert math.isnan(found["validation/bits_per_byte"])


# ------------------------------------------------------------------ gradients and learning rate


class Norms(Callback):
    """Norms of the gradient before it is clipped and as the optimizer uses it."""

    def __init__(self) -> None:
        self.before: list[float] = []
        self.used: list[float] = []

    def on_train_start(self, trainer: lightning.Trainer, module: lightning.LightningModule) -> None:
        trainer.optimizers[0].register_step_post_hook(lambda *_: self.used.append(norm(module)))

    def on_before_optimizer_step(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        self.before.append(norm(module))


def norm(module: lightning.LightningModule) -> float:
    parts = [parameter.grad.norm() for parameter in module.parameters() if parameter.grad is not None]
    return float(torch.stack(parts).norm())


def test_the_gradient_is_clipped_and_its_norm_logged(module: Callable[..., Any], data: dialog.DialogDataModule) -> None:
    notes, norms = Notes(), Norms()
    users_own(notes, callbacks=[norms], limit_train_batches=4, gradient_clip_val=CLIP).fit(module(), data)
    assert min(norms.before) > CLIP
    assert norms.used == pytest.approx([CLIP] * 4, rel=1e-4)
    assert notes["train/gradient_norm"] == pytest.approx(norms.before, rel=1e-5)


def test_without_clipping_the_norm_is_still_logged(module: Callable[..., Any], data: dialog.DialogDataModule) -> None:
    notes, norms = Notes(), Norms()
    users_own(notes, callbacks=[norms], limit_train_batches=2).fit(module(), data)
    assert norms.used == norms.before
    assert notes["train/gradient_norm"] == pytest.approx(norms.before, rel=1e-5)


def test_inverse_square_root_schedule(module: Callable[..., Any], data: dialog.DialogDataModule) -> None:
    notes = Notes()
    schedule = {"name": "inverse_sqrt", "warmup_steps": 3}
    made = module(optimizer={"name": "adamw", "lr": 0.01, "schedule": schedule})
    users_own(notes, max_epochs=2, limit_train_batches=4, limit_val_batches=0).fit(made, data)
    expected = [0.01 * min(step / 3, math.sqrt(3 / step)) for step in range(1, 9)]
    assert notes["train/learning_rate"] == pytest.approx(expected, rel=1e-6)
    assert max(expected) == expected[2] == 0.01


@pytest.mark.parametrize("validations", [{"max_epochs": 8}, {"max_epochs": 2, "val_check_interval": 0.25}])
def test_plateau_schedule_counts_validations(
    module: Callable[..., Any], data: dialog.DialogDataModule, validations: dict[str, Any]
) -> None:
    """Also when an epoch has several: after patience + 1 of them without a new lowest loss the rate falls."""
    notes = Notes()
    schedule = {"name": "plateau", "factor": 0.1, "patience": 1}
    made = module(kind=Scripted, optimizer={"name": "adamw", "lr": 0.01, "schedule": schedule})
    made.script = iter([3.0, 2.0, 2.5, 2.1, 1.0, 1.5, 1.5, 9.0])
    batches = 4 if len(validations) > 1 else 1  # one between two validations
    users_own(notes, limit_train_batches=batches, limit_val_batches=1, **validations).fit(made, data)
    assert notes["validation/loss"] == [3.0, 2.0, 2.5, pytest.approx(2.1), 1.0, 1.5, 1.5, 9.0]
    assert notes["train/learning_rate"] == pytest.approx([1e-2] * 4 + [1e-3] * 3 + [1e-4])


def test_validating_alone_is_no_sign_of_a_plateau(module: Callable[..., Any], data: dialog.DialogDataModule) -> None:
    made = module(
        kind=Scripted, optimizer={"name": "adamw", "lr": 0.01, "schedule": {"name": "plateau", "patience": 0}}
    )
    made.script = iter([1.0, 2.0, 3.0, 4.0])
    trainer = users_own(limit_train_batches=1, limit_val_batches=1, num_sanity_val_steps=1)
    trainer.fit(made, data)  # the first is the sanity check
    for _ in range(2):
        trainer.validate(made, data, verbose=False)
    assert trainer.optimizers[0].param_groups[0]["lr"] == 0.01


def test_a_logged_step_is_an_optimizer_step(
    tiny: Callable[..., Any], module: Callable[..., Any], data: dialog.DialogDataModule, tmp_path: Path
) -> None:
    notes, steps = Notes(), 4
    made = module()
    recipe = tiny("lstm", f"trainer.max_steps={steps}", "trainer.accumulate_grad_batches=3", *EVERY_STEP).recipe
    trainer = own(recipe, tmp_path, [notes])
    trainer.fit(made, data)
    trained = [(step, line) for step, line in notes.lines if "train/loss" in line]
    assert trainer.global_step == steps
    assert len(trained) == steps
    assert [b - a for (a, _), (b, _) in pairwise(trained)] == [1] * (steps - 1)
    rows = iter(data.train_dataloader())
    assert (
        trained[-1][1]["train/tokens"] == made.target_tokens == sum(next(rows).target_tokens for _ in range(3 * steps))
    )


# ------------------------------------------------------------------ precision


EVERY_STEP = ["trainer.log_every_n_steps=1"]


def own(recipe: dialog.Recipe, folder: Path, loggers: list[Logger], *callbacks: Callback) -> lightning.Trainer:
    """The Trainer of a recipe."""
    return build_trainer(recipe, folder, loggers, callbacks)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("precision", ["bf16-mixed", "16-mixed"])
def test_fused_optimizer_with_clipping_in_mixed_precision(
    tiny: Callable[..., Any],
    module: Callable[..., Any],
    data: dialog.DialogDataModule,
    tmp_path: Path,
    precision: str,
    family: str,
) -> None:
    losses, measured = {}, {}
    for each in ("32-true", precision):
        notes, norms = Notes(), Norms()
        settings = [
            f"trainer.precision={each}",
            "trainer.max_steps=2",
            f"trainer.gradient_clip_val={CLIP}",
            *EVERY_STEP,
        ]
        trainer = own(tiny(family, *settings).recipe, tmp_path / each, [notes], norms)
        trainer.fit(module(family), data)
        assert trainer.optimizers[0].defaults["fused"]
        assert norms.used == pytest.approx([CLIP] * 2, rel=1e-3)
        losses[each], measured[each] = notes["train/loss"], notes["train/gradient_norm"]
    assert losses[precision] == pytest.approx(losses["32-true"], rel=0.02)
    assert losses[precision] != losses["32-true"]
    assert measured[precision] == pytest.approx(measured["32-true"], rel=0.1)  # not that of a scaled loss


# ------------------------------------------------------------------ checkpoints

NAMES = (BEST, LAST, PREVIOUS)


def scripted(
    tiny: Callable[..., Any], module: Callable[..., Any], folder: Path, losses: list[float], *overrides: str
) -> tuple[lightning.Trainer, dialog.DialogModule]:
    """A run whose validations, one each step, have the given losses."""
    made = module(kind=Scripted)
    made.script = iter(losses)
    settings = [f"trainer.max_steps={len(losses)}", *EVERY_STEP, "trainer.val_check_interval=1"]
    return own(tiny("transformer", *settings, *overrides).recipe, folder, []), made


def checkpoint(folder: Path, name: str) -> dict[str, Any]:
    return SafeCheckpointIO().load_checkpoint(folder / "checkpoints" / f"{name}.ckpt")


def test_best_is_the_lowest_validation_loss_and_last_the_last(
    tiny: Callable[..., Any], module: Callable[..., Any], data: dialog.DialogDataModule, tmp_path: Path
) -> None:
    trainer, made = scripted(tiny, module, tmp_path, [3.0, 1.0, 2.0, 4.0])
    trainer.fit(made, data)
    assert checkpoint(tmp_path, "best")["global_step"] == 2
    last = checkpoint(tmp_path, "last")
    assert last["global_step"] == 4
    for name, value in made.state_dict().items():
        assert torch.equal(last["state_dict"][name], value)


def test_a_step_without_validation_can_be_kept(
    tiny: Callable[..., Any], module: Callable[..., Any], data: dialog.DialogDataModule, tmp_path: Path
) -> None:
    class Stop(Callback):
        def on_train_batch_end(self, trainer: lightning.Trainer, *args: object) -> None:
            if trainer.global_step == 5:
                raise RuntimeError("the power is off")

    settings = ["trainer.val_check_interval=100", "checkpoint.every_n_steps=2"]
    trainer, made = scripted(tiny, module, tmp_path, [1.0] * 9, *settings)
    trainer.callbacks.append(Stop())
    with pytest.raises(RuntimeError, match="power"):
        trainer.fit(made, data)
    assert checkpoint(tmp_path, "last")["global_step"] == 4


@pytest.mark.parametrize("family", FAMILIES)
def test_the_manifest_has_the_hash_of_each_checkpoint(trained: Callable[[str], Path], family: str) -> None:
    folder = trained(family) / "checkpoints"
    assert {path.name for path in folder.iterdir()} == {*NAMES, MANIFEST}  # nothing half-written
    hashes = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    for name in NAMES:
        assert hashes[name] == hashlib.sha256((folder / name).read_bytes()).hexdigest()
    assert len(hashes) == len(NAMES)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_weights_alone_are_the_best_ones(trained: Callable[[str], Path], family: str) -> None:
    best = checkpoint(trained(family), "best")["state_dict"]
    for name, value in dialog.load(trained(family)).model.state_dict().items():
        assert torch.equal(best[f"model.{name}"], value)


def test_a_damaged_checkpoint_is_refused(
    tiny: Callable[..., Any], module: Callable[..., Any], data: dialog.DialogDataModule, tmp_path: Path
) -> None:
    trainer, made = scripted(tiny, module, tmp_path, [1.0])
    trainer.fit(made, data)
    path = tmp_path / "checkpoints" / "last.ckpt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"last\.ckpt: damaged"):
        checkpoint(tmp_path, "last")
    assert checkpoint(tmp_path, "best")["global_step"] == 1


def test_a_checkpoint_runs_no_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, tuple[str]]:
            return Path.touch, (tmp_path / "touched",)

    torch.save({"state_dict": Evil()}, tmp_path / "evil.ckpt")
    with pytest.raises(Exception, match=r"weights_only|Unsupported|WeightsUnpickler"):
        SafeCheckpointIO().load_checkpoint(tmp_path / "evil.ckpt", weights_only=False)
    assert not (tmp_path / "touched").exists()


def test_a_failed_write_leaves_the_old_checkpoint(tmp_path: Path) -> None:
    storage, path = SafeCheckpointIO(), tmp_path / "last.ckpt"
    storage.save_checkpoint({"epoch": 1}, path)
    with pytest.raises(Exception, match=r"pickle|local object"):
        storage.save_checkpoint({"epoch": lambda: 2}, path)
    assert storage.load_checkpoint(path) == {"epoch": 1}
    assert {each.name for each in tmp_path.iterdir()} == {"last.ckpt", MANIFEST}


# ------------------------------------------------------------------ when training ends


def test_it_stops_early_for_want_of_progress(
    tiny: Callable[..., Any], module: Callable[..., Any], data: dialog.DialogDataModule, tmp_path: Path
) -> None:
    losses = [3.0, 2.0, 2.5, 2.5, 1.0, 1.0]
    trainer, made = scripted(tiny, module, tmp_path, losses, "checkpoint.patience=2")
    trainer.fit(made, data)
    assert trainer.global_step == 4
    trainer, made = scripted(tiny, module, tmp_path / "patient", losses, "checkpoint.patience=null")
    trainer.fit(made, data)
    assert trainer.global_step == 6


@pytest.mark.parametrize("patience", ["null", "5"])
@pytest.mark.parametrize(
    "settings",
    [
        ["trainer.max_steps=2", "trainer.check_val_every_n_epoch=1", "trainer.val_check_interval=1.0"],
        ["trainer.max_steps=2", "trainer.val_check_interval=460"],
        ["trainer.max_steps=-1", "trainer.max_epochs=2", "trainer.val_check_interval=460"],
        [
            "trainer.max_steps=-1",
            "trainer.max_epochs=2",
            "trainer.check_val_every_n_epoch=5",
            "trainer.val_check_interval=1.0",
        ],
    ],
    ids=["in the first epoch", "before a validation", "at the end of an epoch", "in a later epoch"],
)
def test_the_last_step_is_validated_wherever_it_falls(
    tiny: Callable[..., Any],
    module: Callable[..., Any],
    data: dialog.DialogDataModule,
    tmp_path: Path,
    settings: list[str],
    patience: str,
) -> None:
    notes = Notes()
    recipe = tiny("transformer", *settings, f"checkpoint.patience={patience}", *EVERY_STEP).recipe
    trainer = own(recipe, tmp_path, [notes])
    trainer.fit(module(), data)
    assert trainer.global_step == (2 if "trainer.max_steps=2" in settings else 2 * len(data.train_dataloader()))
    assert len(notes["validation/loss"]) == 1
    steps = {checkpoint(tmp_path, name)["global_step"] for name in ("best", "last")}
    assert steps == {trainer.global_step}
