"""On a GPU: every precision trains and agrees with the CPU, nothing waits for the device, and
replies are the same.

    python -m pytest -m gpu tests/gpu

Tolerances are of the formats: bfloat16 keeps 8 bits, float16 11; float32 is without TF32.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch
from torch import Tensor, nn

import dialog
from dialog.build import build_module, build_trainer
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD
from dialog.errors import RunError
from dialog.generation.constraints import Constraints
from dialog.generation.searches.greedy import Greedy
from dialog.models.recurrent.cells import GRU, LSTM
from dialog.models.recurrent.sequences import run_layer
from dialog.models.seq2seq import Seq2Seq
from dialog.training.optimization.precision import precision_plugin

pytestmark = [
    pytest.mark.gpu,
    # Lightning's, in the runs on the CPU
    pytest.mark.filterwarnings("ignore:GPU available but not used"),
    # copied or cast one by one
    pytest.mark.filterwarnings("ignore:RNN module weights are not part"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype"),
]
FAMILIES = ["lstm", "transformer"]
NEAR = {"32-true": 1e-4, "bf16-mixed": 0.03, "bf16-true": 0.08, "16-mixed": 0.01}
"""Largest relative difference of a loss from the CPU's in float32."""


class Record(lightning.Callback):
    """Loss and gradient norm of each step."""

    def __init__(self) -> None:
        self.lines: list[dict[str, float]] = []

    def on_train_batch_end(self, trainer: lightning.Trainer, *_: object) -> None:
        names = ("train/loss", "train/gradient_norm")
        self.lines.append({name: trainer.callback_metrics[name].item() for name in names})


def trained(
    recipe: dialog.Recipe, data: Path, folder: Path, *callbacks: lightning.Callback
) -> tuple[dialog.DialogModule, lightning.Trainer]:
    module = build_module(recipe, 400)
    trainer = build_trainer(recipe, folder, [], callbacks)
    trainer.fit(module, dialog.DialogDataModule(data, batch_tokens=1200))
    return module, trainer


# ------------------------------------------------------------------ training


@pytest.mark.parametrize("family", FAMILIES)
def test_every_precision_trains_near_the_cpu(
    tiny: Callable[..., Any], prepared: Path, tmp_path: Path, family: str
) -> None:
    steps = [
        f"trainer.{name}" for name in ("max_steps=3", "val_check_interval=3", "log_every_n_steps=1")
    ]
    settings = [*steps, "model.dropout=0.0"]
    records = {}
    for precision in ("cpu", *NEAR):
        device = "cpu" if precision == "cpu" else "gpu"
        chosen = [
            f"trainer.precision={'32-true' if precision == 'cpu' else precision}",
            f"trainer.accelerator={device}",
        ]
        record = Record()
        recipe = tiny(family, *settings, *chosen).recipe
        _, trainer = trained(recipe, prepared, tmp_path / precision, record)
        records[precision] = record.lines, trainer.callback_metrics["validation/loss"].item()
    expected, expected_validation = records.pop("cpu")
    for precision, (found, validation) in records.items():
        near = NEAR[precision]
        assert len(found) == len(expected) == 3
        for one, other in zip(found, expected, strict=True):
            assert one["train/loss"] == pytest.approx(other["train/loss"], rel=near), precision
            assert one["train/gradient_norm"] == pytest.approx(
                other["train/gradient_norm"], rel=10 * near
            ), precision
        assert validation == pytest.approx(expected_validation, rel=near), precision


@pytest.mark.parametrize("head", ["vocabulary", "pointer_generator"])
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_equal_the_cpus(
    tiny: Callable[..., Any], prepared: Path, family: str, head: str
) -> None:
    """In float32 to 1e-4 of the norm; halves near it, and without missing gradients in sampled
    teacher forcing.
    """
    model = dialog.build_model(
        tiny(family, f"model.head.name={head}", "model.dropout=0.0").recipe.model, 400
    )
    batch = next(iter(dialog.DialogDataModule(prepared, batch_tokens=1200).train_dataloader()))
    there = batch._replace(source=batch.source.cuda(), target=batch.target.cuda())
    expected = gradients(copy.deepcopy(model).double(), batch)
    on_gpu = gradients(copy.deepcopy(model).cuda(), there)
    near(on_gpu, expected, 1e-4)
    for dtype, tolerance in ((torch.bfloat16, 0.1), (torch.float16, 0.02)):
        with torch.autocast("cuda", dtype):
            near(gradients(copy.deepcopy(model).cuda(), there), expected, tolerance)
            forced = gradients(copy.deepcopy(model).cuda(), there, ratio=0.5, sampled=True)
        assert all(forced[name].any() for name, each in expected.items() if each.any())
    near(gradients(copy.deepcopy(model).cuda().bfloat16(), there), expected, 0.2)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_loss_in_chunks_is_the_whole(
    tiny: Callable[..., Any], prepared: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    """And waits for nothing; the head's weight gets its gradient chunk by chunk."""
    model = dialog.build_model(tiny(family, "model.dropout=0.0").recipe.model, 400).cuda()
    batch = next(iter(dialog.DialogDataModule(prepared, batch_tokens=1200).train_dataloader()))
    batch = batch._replace(source=batch.source.cuda(), target=batch.target.cuda())
    module = dialog.DialogModule(model, padding=PAD)

    def step(*, half: bool) -> dict[str, Tensor]:
        return gradients(copy.deepcopy(model), batch, half=half)

    expected = {half: step(half=half) for half in (False, True)}
    monkeypatch.setattr("dialog.training.losses.CHUNK", max(1, batch.target_tokens // 4))
    near(step(half=False), expected[False], 1e-4)
    near(step(half=True), expected[True], 0.03)
    torch.cuda.set_sync_debug_mode("error")
    try:
        module.training_step(batch, 1).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_cast_together_are_those_of_autocast(
    tiny: Callable[..., Any], prepared: Path, monkeypatch: pytest.MonkeyPatch, family: str
) -> None:
    model = dialog.build_model(tiny(family, "model.dropout=0.0").recipe.model, 400).cuda()
    batch = next(iter(dialog.DialogDataModule(prepared, batch_tokens=1200).train_dataloader()))
    batch = batch._replace(source=batch.source.cuda(), target=batch.target.cuda())
    found = gradients(copy.deepcopy(model), batch, half=True)
    monkeypatch.setattr("dialog.training.step.cast_linear", lambda model: nullcontext())
    near(found, gradients(copy.deepcopy(model), batch, half=True), 1e-3)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
@pytest.mark.parametrize("masked", [False, True])
def test_recurrent_states_stay_float32(kind: type[nn.RNNBase], masked: bool) -> None:
    """Also those of cuDNN's layer, which autocast would round."""
    cell = LSTM() if kind is nn.LSTM else GRU()
    layer = cell.layer(12, 16).cuda()
    inputs = torch.randn(3, 50, 12, device="cuda")
    hidden = torch.zeros(3, 16, device="cuda")
    mask = torch.full((3, 16), 1.25, device="cuda") if masked else None
    with torch.autocast("cuda", torch.bfloat16):
        mixed = run_layer(cell, layer, inputs.bfloat16(), hidden, cell.first_state(hidden), mask)
    exact = run_layer(cell, layer, inputs, hidden, cell.first_state(hidden), mask)
    for one, other in zip(mixed, exact, strict=True):
        assert one.dtype is torch.float32
        torch.testing.assert_close(one, other, rtol=0, atol=0.03)


def gradients(
    model: Seq2Seq, batch: Any, *, half: bool = False, **forcing: Any
) -> dict[str, Tensor]:
    forced = {"name": "constant", **forcing} if forcing else None
    module = dialog.DialogModule(model, padding=PAD, teacher_forcing=forced)
    with torch.autocast("cuda", torch.bfloat16) if half else nullcontext():
        loss = module.training_step(batch, 0)
    with torch.autocast("cuda", enabled=False):
        loss.backward()
    return {
        name: each.grad.double().cpu()
        for name, each in model.named_parameters()
        if each.grad is not None
    }


def near(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    whole = torch.cat([each.flatten() for each in expected.values()])
    apart = torch.cat([found[name].flatten() for name in expected]) - whole
    assert apart.norm() <= tolerance * whole.norm()


# ------------------------------------------------------------------ recorded steps


@pytest.mark.parametrize("precision", NEAR)
@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_steps_train_as_eager_ones(
    tiny: Callable[..., Any],
    prepared: Path,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    family: str,
    precision: str,
) -> None:
    """With dropout, clipping and two micro-batches a step, over shapes that come again."""
    settings = ["accelerator=gpu", f"precision={precision}", "max_steps=20"]
    settings += ["accumulate_grad_batches=2", "log_every_n_steps=1"]
    records = []
    counts = []
    for graphs in ("false", "true"):
        chosen = [f"trainer.{each}" for each in (*settings, f"graphs={graphs}")]
        recipe = tiny(family, *chosen, "model.dropout=0.1").recipe
        module, record, shapes = build_module(recipe, 400), Record(), Shapes()
        data = dialog.DialogDataModule(prepared, batch_tokens=600, static_shapes=True)
        build_trainer(recipe, tmp_path / graphs, [], [record, shapes]).fit(module, data)
        records.append([line["train/loss"] for line in record.lines])
        counts.append(shapes.recorded)
    assert counts[0] == 0 < counts[1]
    assert not [each for each in caplog.messages if "trainer.graphs" in each]
    assert records[1] == pytest.approx(records[0], rel=NEAR[precision])


class Shapes(lightning.Callback):
    """Number of recorded shapes."""

    recorded = 0

    def on_train_batch_end(
        self, trainer: lightning.Trainer, module: lightning.LightningModule, *_: object
    ) -> None:
        assert isinstance(module, dialog.DialogModule)
        self.recorded = len(module.recorded.recorded) if module.recorded else 0


# ------------------------------------------------------------------ no synchronisation


@pytest.mark.parametrize("precision", NEAR)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_step_does_not_synchronise(
    tiny: Callable[..., Any], prepared: Path, tmp_path: Path, family: str, precision: str
) -> None:
    """From the start of a batch to its end, between logged steps; the guard checks a step later."""

    class Strict(lightning.Callback):
        def on_train_batch_start(self, trainer: lightning.Trainer, *_: object) -> None:
            if 1 <= trainer.global_step < 5:
                torch.cuda.set_sync_debug_mode("error")

        def on_train_batch_end(self, *_: object) -> None:
            torch.cuda.set_sync_debug_mode("default")

    settings = [f"trainer.precision={precision}", "trainer.accelerator=gpu", "trainer.max_steps=6"]
    recipe = tiny(
        family, *settings, "trainer.log_every_n_steps=100", "trainer.enable_progress_bar=true"
    ).recipe
    try:
        trained(recipe, prepared, tmp_path, Strict())
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_own_predictions_do_not_synchronise(
    tiny: Callable[..., Any], prepared: Path, family: str, sampled: bool
) -> None:
    model = dialog.build_model(tiny(family).recipe.model, 400).cuda()
    forcing = {"name": "constant", "ratio": 0.5, "sampled": sampled}
    module = dialog.DialogModule(model, padding=PAD, teacher_forcing=forcing)
    batches = itertools.islice(
        dialog.DialogDataModule(prepared, batch_tokens=1200).train_dataloader(), 2
    )
    batches = [
        each._replace(source=each.source.cuda(), target=each.target.cuda()) for each in batches
    ]
    module.training_step(batches[0], 0).backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        module.training_step(batches[1], 1).backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("family", FAMILIES)
def test_generation_waits_once_in_eight_tokens(tiny: Callable[..., Any], family: str) -> None:
    model = dialog.build_model(tiny(family).recipe.model, 400).cuda().eval()
    source = torch.randint(6, 400, (8, 9), device="cuda")

    def waits(tokens: int) -> int:
        limits = Constraints(end=EOS, special=(PAD, BOS), min_length=tokens, max_length=tokens)
        with torch.no_grad(), warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            memory, state = model.start(source, source != PAD)
            torch.cuda.set_sync_debug_mode("warn")
            try:
                first = torch.full_like(source[:, :1], BOS)
                Greedy(constraints=limits)(model.step, first, memory, state, source)
            finally:
                torch.cuda.set_sync_debug_mode("default")
        return sum("called a synchronizing" in str(warning.message) for warning in seen)

    waits(17)
    assert waits(25) - waits(9) == 2


# ------------------------------------------------------------------ not finite


class Poison(dialog.DialogModule):
    """One gradient is NaN at step 3; keeps the weights from the start of that step."""

    def on_train_batch_start(self, batch: object, batch_index: int) -> None:
        self.before = {name: each.detach().clone() for name, each in self.model.named_parameters()}

    def on_after_backward(self) -> None:
        if self.global_step == 3:
            self.kept = self.before
            next(self.parameters()).grad[0, 0] = torch.nan


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
@pytest.mark.parametrize("family", FAMILIES)
def test_not_finite_stops_with_the_weights_before(
    tiny: Callable[..., Any], prepared: Path, tmp_path: Path, family: str, precision: str
) -> None:
    settings = [f"trainer.precision={precision}", "trainer.accelerator=gpu", "trainer.max_steps=9"]
    recipe = tiny(family, *settings, "trainer.val_check_interval=9").recipe
    module = Poison(dialog.build_model(recipe.model, 400), padding=PAD)
    with pytest.raises(RunError, match=r"^step 4: loss \d[^\n]* gradient norm nan"):
        build_trainer(recipe, tmp_path, []).fit(
            module, dialog.DialogDataModule(prepared, batch_tokens=1200)
        )
    for name, each in module.model.named_parameters():
        assert torch.equal(each.to("cuda"), module.kept[name].to("cuda")), name


def test_scaler_skips_a_step_and_continues(
    tiny: Callable[..., Any], prepared: Path, tmp_path: Path
) -> None:
    class Overflow(lightning.Callback):
        def on_after_backward(
            self, trainer: lightning.Trainer, module: lightning.LightningModule
        ) -> None:
            if trainer.global_step in (1, 2):
                next(module.parameters()).grad.fill_(torch.inf)

    settings = ["trainer.precision=16-mixed", "trainer.accelerator=gpu", "trainer.max_steps=5"]
    _, trainer = trained(tiny("transformer", *settings).recipe, prepared, tmp_path, Overflow())
    assert trainer.global_step == 5
    assert trainer.precision_plugin.scaler.get_scale() == 2.0**14


# ------------------------------------------------------------------ replies


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_replies_equal_the_cpus(
    trained_model: Callable[[str], Seq2Seq], prepared: Path, family: str
) -> None:
    """A reply may differ from the first position at which the two best scores are within 1e-3."""
    model = trained_model(family)
    batches = itertools.islice(
        dialog.DialogDataModule(prepared, batch_tokens=1200).val_dataloader(), 3
    )
    pairs: list[tuple[Tensor, list[int], list[int]]] = []
    for batch in batches:
        here, there = (replies(model, batch.source.to(device)) for device in ("cpu", "cuda"))
        pairs += zip(batch.source, here, there, strict=True)
    others = [(source, one, other) for source, one, other in pairs if one != other]
    assert len(others) <= 0.1 * len(pairs)
    for source, one, other in others:
        place = next(
            i for i, both in enumerate(itertools.zip_longest(one, other)) if both[0] != both[1]
        )
        with torch.no_grad():
            scores = model.cpu()(
                source[None], source[None] != PAD, torch.tensor([[BOS, *one[:place]]])
            )[0, -1]
        best, second = scores.topk(2).values.tolist()
        assert best - second < 1e-3


def replies(model: Seq2Seq, source: Tensor) -> list[list[int]]:
    model = model.to(source.device)
    with torch.no_grad():
        memory, state = model.start(source, source != PAD)
        first = torch.full((len(source), 1), BOS, device=source.device)
        constraints = Constraints(end=EOS, special=(PAD, BOS), max_length=12)
        replies = Greedy(constraints=constraints)(model.step, first, memory, state, source)
        return [reply.tokens for (reply,) in replies]


@pytest.fixture
def trained_model(
    tiny: Callable[..., Any], prepared: Path, tmp_path: Path
) -> Callable[[str], Seq2Seq]:
    def train(family: str) -> Seq2Seq:
        settings = [
            "trainer.accelerator=gpu",
            "trainer.max_steps=40",
            "trainer.val_check_interval=40",
        ]
        return trained(tiny(family, *settings).recipe, prepared, tmp_path)[0].model.eval()

    return train


def test_precision_plugin_casts_on_the_gpu() -> None:
    plugin = precision_plugin("bf16-mixed", "cuda")
    assert plugin is not None
    with plugin.forward_context():
        assert torch.is_autocast_enabled("cuda")
        assert torch.is_autocast_cache_enabled()
        assert torch.get_autocast_dtype("cuda") is torch.bfloat16
