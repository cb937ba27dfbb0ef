"""Recorded steps train as eager ones do, and what cannot be recorded is named; on a CPU, recorded
calls of torch stand in for CUDA graphs (every model: tests/laws/test_recorded_steps.py).
"""

import logging
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from lightning.pytorch import Callback, LightningModule, Trainer
from recorded_calls import RecordedCalls
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import dialog
from dialog.build import build_module, build_trainer, for_this_hardware
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import PAD
from dialog.errors import UserError
from dialog.models.seq2seq import Seq2Seq
from dialog.training.losses import CrossEntropy, LossSums
from dialog.training.optimization.compilation import CompiledStep
from dialog.training.optimization.graphs import RecordedSteps

Network = Callable[..., Seq2Seq]
Draw = Callable[..., Batch]


def reordered(batch: Batch) -> Batch:
    return batch._replace(source=batch.source.flip(0))


def train(module: dialog.DialogModule, batches: list[Batch]) -> list[Tensor]:
    """Losses of steps of two micro-batches each, and the weights in the end."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for number, batch in enumerate(batches):
        torch.manual_seed(number)
        loss = module.training_step(batch, number)
        loss.backward()
        losses.append(loss.detach())
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
            module.step_sums.sums = {}
    return [*losses, *(each.detach().clone() for each in module.parameters())]


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPUs have a recorder."""
    monkeypatch.setattr("dialog.training.module.recorder_of", lambda device: RecordedCalls())


@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("decoder", ["lstm", "transformer"])
def test_micro_batches_of_several_shapes(network: Network, batch: Draw, decoder: str) -> None:
    """Gradients of recorded and eager micro-batches add up, in any order."""
    small, large = batch(4), batch(6)
    order = [small, large, large, small, large, large, small, reordered(large), small, small]
    results = []
    for graphs in (False, True):
        model = network(decoder, dropout=0.2).train()
        module = dialog.DialogModule(model, padding=PAD, graphs=graphs)
        module.on_train_start()
        results.append(train(module, order))
        assert (module.recorded is not None) == graphs
    assert module.recorded is not None
    assert len(module.recorded.recorded) == 2
    torch.testing.assert_close(*results, rtol=0, atol=1e-12)


class Count(Callback):
    """The number of recorded shapes."""

    recorded = 0

    def on_train_batch_end(self, trainer: Trainer, module: LightningModule, *_: object) -> None:
        assert isinstance(module, dialog.DialogModule)
        self.recorded = len(module.recorded.recorded) if module.recorded else 0


@pytest.mark.usefixtures("recorded")
def test_a_trainer_records_its_steps(
    tiny: Callable[..., Any], prepared: Path, tmp_path: Path
) -> None:
    """Dropout, seeds, clipping, autocast and accumulation of a run are those of eager steps."""
    weights = []
    counts = []
    for graphs in ("false", "auto"):
        settings = ("max_steps=12", "accumulate_grad_batches=2", "precision=bf16-mixed")
        recipe = for_this_hardware(
            tiny(
                "transformer",
                "data.static_shapes=true",
                f"trainer.graphs={graphs}",
                "data.batch_tokens=300",
                "preflight=false",
                *(f"trainer.{each}" for each in settings),
            ).recipe
        )
        module = build_module(recipe, 400)
        data = dialog.DialogDataModule(prepared, batch_tokens=300, static_shapes=True)
        count = Count()
        build_trainer(recipe, tmp_path / graphs, [], [count]).fit(module, data)
        counts.append(count.recorded)
        weights.append(dict(module.model.named_parameters()))
    assert counts[0] == 0 < counts[1]
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-4, atol=1e-5)


def test_ddp_reduces_recorded_gradients(network: Network, batch: Draw, tmp_path: Path) -> None:
    """Its hooks see every parameter; `no_sync` micro-batches add up."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/met", rank=0, world_size=1)
    try:
        results = []
        for recorder in (None, RecordedCalls()):
            module = dialog.DialogModule(network(), padding=PAD)
            if recorder is not None:
                module.recorded = RecordedSteps(module.step, recorder)
            parallel = DistributedDataParallel(Whole(module))
            for number in range(8):
                with nullcontext() if number % 2 else parallel.no_sync():
                    parallel(batch()).backward()
                if number % 2:
                    module.step_sums.sums = {}
                    gradients = [each.grad for each in module.parameters()]
                    if number < 7:
                        module.zero_grad()
            results.append(gradients)
    finally:
        dist.destroy_process_group()
    torch.testing.assert_close(*results, rtol=0, atol=1e-12)


class Whole(nn.Module):
    """The training step as a forward pass, as Lightning runs it under DDP."""

    def __init__(self, module: dialog.DialogModule) -> None:
        super().__init__()
        self.module = module

    def forward(self, batch: Batch) -> Tensor:
        return self.module.training_step(batch, 0)


# ------------------------------------------------------------------ what is not recorded


class Silent:
    """A loss of one's own, without a mask."""

    def __call__(self, logits: Tensor, targets: Tensor) -> LossSums:
        return CrossEntropy()(logits, targets)


class Broken(RecordedCalls):
    """A recorder without memory."""

    def record(self, function: Callable[[], Any]) -> Any:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nDetails")


class Reading(RecordedCalls):
    """A recorder that overlooks reads of the host until it records."""

    def watch(self) -> Any:
        return nullcontext([])


class Forgetful(RecordedCalls):
    """A recorder whose replays of a backward pass compute nothing."""

    def record(self, function: Callable[[], Any]) -> Any:
        result, replay = super().record(function)
        return result, (lambda: None) if isinstance(result, list) else replay


class Learned(CrossEntropy, nn.Module):
    """A loss with a parameter."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        CrossEntropy.__init__(self)
        self.factor = nn.Parameter(torch.ones(()))


def steps_of(
    model: Seq2Seq, recorder: RecordedCalls, **options: Any
) -> tuple[RecordedSteps, dialog.DialogModule]:
    module = dialog.DialogModule(model, padding=PAD, **options)
    return RecordedSteps(module.step, recorder), module


REVERSE = {"objectives": [{"name": "reverse"}]}


@pytest.mark.parametrize(
    ("recorder", "options", "cause"),
    [
        (RecordedCalls, REVERSE, "objectives.py:"),
        (Reading, REVERSE, "not permitted"),
        (Broken, {}, "out of memory"),
        (RecordedCalls, {"loss": {"name": f"{__name__}.Silent"}}, "'real'"),
        (RecordedCalls, {"loss": {"name": f"{__name__}.Learned"}}, "parameters"),
        (Forgetful, {}, "gradient of a replay"),
        (RecordedCalls, {"hook": True}, "encoder"),
    ],
    ids=["read", "read-late", "memory", "loss", "parameters", "replay", "hook"],
)
def test_steps_that_cannot_be_recorded_are_eager(
    network: Network,
    batch: Draw,
    caplog: pytest.LogCaptureFixture,
    recorder: type[RecordedCalls],
    options: dict[str, Any],
    cause: str,
) -> None:
    options = dict(options)
    model = network()
    if options.pop("hook", False):
        model.encoder.register_forward_hook(lambda *_: None)
    with caplog.at_level(logging.WARNING, "dialog"):
        steps, module = steps_of(model, recorder(), **dialog.trusted(options))
        for _ in range(5):
            objective, _ = steps(model, batch(), 0)
    (line,) = caplog.messages
    assert cause in line
    assert "\n" not in line
    assert not steps.recorded
    torch.testing.assert_close(objective, module.step(model, batch(), 0)[0])


def test_the_least_recently_used_shape_is_dropped(network: Network, batch: Draw) -> None:
    model = network()
    module = dialog.DialogModule(model, padding=PAD)
    steps = RecordedSteps(module.step, RecordedCalls(), most=2)
    for rows in (4, 4, 4, 5, 5, 5, 4, 6, 6, 6):
        steps(model, batch(rows), 0)
    assert [len(each.batch.source) for each in steps.recorded.values()] == [4, 6]


def test_a_schedule_is_recorded_once_it_is_constant(network: Network, batch: Draw) -> None:
    model = network("lstm")
    forcing = {"name": "linear", "steps": 4, "end": 1.0, "start": 0.5}
    steps, _ = steps_of(model, RecordedCalls(), teacher_forcing=forcing)
    for number in range(7):
        steps(model, batch(), number)
        assert len(steps.recorded) == (number == 6)


def test_changed_parameters_are_recorded_again(network: Network, batch: Draw) -> None:
    model = network()
    steps, module = steps_of(model, RecordedCalls())
    for _ in range(4):
        steps(model, batch(), 0)
    for parameter in model.encoder.parameters():
        parameter.requires_grad_(False)
    for _ in range(4):
        model.zero_grad()
        steps(model, batch(), 0)[0].backward()
    assert len(steps.recorded) == 2
    assert {each.grad is None for each in model.encoder.parameters()} == {True}
    model.target_embedding.table.weight.data = torch.zeros_like(model.target_embedding.table.weight)
    torch.testing.assert_close(steps(model, batch(), 0)[0], module.step(model, batch(), 0)[0])


def test_a_compiled_step_replaces_a_recorded_one(
    network: Network, batch: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(
        "dialog.training.module.CompiledStep", lambda step: made.append(step) or step
    )
    module = dialog.DialogModule(network(), padding=PAD, graphs=True, compiled=True)
    module.on_train_start()
    module.training_step(batch(), 0)
    assert made == [module.step] == [module.recorded]


def test_an_error_of_the_compiler_is_one_line(network: Network, batch: Draw) -> None:
    def fail(graph: Any, inputs: Any) -> Any:
        raise ValueError("no compiler\non this machine")

    module = dialog.DialogModule(network(), padding=PAD)
    with pytest.raises(UserError, match=r"^trainer\.compile: [^\n]*$"):
        CompiledStep(module.step, backend=fail)(module.model, batch(), 0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["trainer.graphs=maybe"], r"trainer\.graphs.*'maybe'"),
        (["trainer.graphs=true", "trainer.compile=true"], r"trainer\.compile.*trainer\.graphs"),
    ],
)
def test_impossible_settings_are_errors(
    tiny: Callable[..., Any], settings: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        for_this_hardware(tiny("lstm", *settings).recipe)
