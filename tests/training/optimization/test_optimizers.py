"""Laws of every optimizer and schedule: the loss falls, training resumes from its state, frozen
weights stay.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dialog
from dialog.build import build_model
from dialog.config.components import build
from dialog.config.compose import compose, group_files, shipped_recipes
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import PAD
from dialog.errors import UserError
from dialog.models.seq2seq import Seq2Seq
from dialog.training.optimization.optimizers import OPTIMIZERS, decay_groups
from dialog.training.optimization.schedules import SCHEDULES

RATES = {"adamw": 0.02, "adam": 0.02, "sgd": 0.1, "adafactor": 0.1}
STEPS = 16
ARGUMENTS: dict[str, dict[str, Any]] = {
    "constant": {"warmup_steps": 3},
    "inverse_sqrt": {"warmup_steps": 5},
    "linear": {"warmup_steps": 3, "steps": STEPS},
    "cosine": {"warmup_steps": 3, "steps": STEPS, "minimum": 0.1},
    "one_cycle": {"steps": STEPS},
    "plateau": {"patience": 0},
}
PAIRS = [
    *((name, "constant") for name in OPTIMIZERS),
    *(("adamw", name) for name in SCHEDULES if name != "constant"),
]
Network = Callable[..., Seq2Seq]
Draw = Callable[..., Batch]


class Training:
    """A network that overfits one batch."""

    def __init__(self, model: Seq2Seq, batch: Batch, optimizer: str, schedule: str) -> None:
        component = {
            "name": optimizer,
            "lr": RATES[optimizer],
            "schedule": {"name": schedule, **ARGUMENTS[schedule]},
        }
        self.module = dialog.DialogModule(model, padding=PAD, optimizer=component)
        built: Any = self.module.configure_optimizers()
        self.optimizer, self.scheduler = built["optimizer"], built["lr_scheduler"]["scheduler"]
        self.batch, self.by_loss = batch, schedule == "plateau"

    def run(self, steps: int) -> list[float]:
        return [self.step() for _ in range(steps)]

    def step(self) -> float:
        self.optimizer.zero_grad()
        logits = self.module(self.batch)
        loss = F.cross_entropy(
            logits.flatten(0, 1), self.batch.target[:, 1:].flatten(), ignore_index=PAD
        )
        loss.backward()
        self.optimizer.step()
        self.scheduler.step(*[loss.item()] if self.by_loss else [])
        return loss.item()

    @property
    def parts(self) -> list[Any]:
        return [self.module, self.optimizer, self.scheduler]


def test_every_optimizer_and_schedule_is_tested() -> None:
    assert RATES.keys() == OPTIMIZERS.keys()
    assert ARGUMENTS.keys() == SCHEDULES.keys()


@pytest.mark.parametrize(("optimizer", "schedule"), PAIRS)
def test_the_loss_falls_and_training_resumes_from_its_state(
    network: Network, batch: Draw, optimizer: str, schedule: str
) -> None:
    straight, resumed = (
        Training(network(encoder="transformer").float(), batch(2), optimizer, schedule)
        for _ in range(2)
    )
    before = straight.run(5)
    file = io.BytesIO()
    torch.save([part.state_dict() for part in straight.parts], file)
    after = straight.run(STEPS - 5)
    assert sum(after[-3:]) < 0.8 * sum(before[:3])
    file.seek(0)
    for part, state in zip(resumed.parts, torch.load(file, weights_only=True), strict=True):
        part.load_state_dict(state)
    assert resumed.run(STEPS - 5) == after
    for name, value in straight.module.state_dict().items():
        assert torch.equal(value, resumed.module.state_dict()[name]), name


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_only_frozen_parameters_stay(network: Network, batch: Draw, optimizer: str) -> None:
    model = network("lstm", tie_embeddings=False).float()
    model.encoder.requires_grad_(False)
    before = {name: value.clone() for name, value in model.named_parameters()}
    Training(model, batch(4), optimizer, "constant").run(3)
    for name, value in model.named_parameters():
        assert torch.equal(value, before[name]) == name.startswith("encoder."), name


class Strange(nn.Module):
    """Parameters for which a rule by dimension alone, or by name alone, is wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(3)
        self.table = nn.Embedding(4, 3)
        self.bias = nn.Parameter(torch.zeros(2, 3))
        self.bias_free = nn.Linear(3, 3, bias=False)


def decays(module: nn.Module) -> Iterator[tuple[str, bool]]:
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    for group in decay_groups(module.named_parameters()):
        for parameter in group["params"]:
            yield names[id(parameter)], "weight_decay" not in group


def test_norms_and_biases_do_not_decay() -> None:
    assert dict(decays(Strange())) == {
        "norm.weight": False,
        "norm.bias": False,
        "bias": False,
        "table.weight": True,
        "bias_free.weight": True,
    }


@pytest.mark.parametrize(
    "model", sorted(group_files(shipped_recipes()["quickstart/transformer"])["model"])
)
def test_each_parameter_is_in_one_group(model: str) -> None:
    recipe = compose("quickstart/transformer", [f"model={model}"]).recipe
    with torch.device("meta"):
        network = build_model(recipe.model, 300)
    flags = list(decays(network))
    assert sorted(name for name, _ in flags) == sorted(
        name for name, _ in network.named_parameters()
    )
    owners = {name: network.get_submodule(name.rpartition(".")[0]) for name, _ in flags}
    for name, decay in flags:
        is_norm = "Norm" in type(owners[name]).__name__
        is_vector = network.get_parameter(name).dim() <= 1
        assert decay != (is_norm or is_vector or "bias" in name.rpartition(".")[2]), name


@pytest.mark.parametrize(
    "choice", sorted(group_files(shipped_recipes()["quickstart/transformer"])["optimizer"])
)
def test_every_shipped_optimizer_can_be_built(network: Network, choice: str) -> None:
    component = compose("quickstart/transformer", [f"optimizer={choice}"])
    module = dialog.DialogModule(network(), padding=PAD, optimizer=component.recipe.optimizer)
    built: Any = module.configure_optimizers()
    assert type(built["optimizer"]).__name__.lower() == component.recipe.optimizer["name"]


def test_an_optimizer_of_torch_takes_the_groups(network: Network) -> None:
    component = dialog.trusted({"name": "torch.optim.NAdam", "lr": 0.01, "weight_decay": 0.25})
    built: Any = dialog.DialogModule(
        network(), padding=PAD, optimizer=component
    ).configure_optimizers()
    assert [group["weight_decay"] for group in built["optimizer"].param_groups] == [0.25, 0.0]


def test_a_schedule_of_torch_takes_the_optimizer(network: Network) -> None:
    schedule = dialog.trusted({"name": "torch.optim.lr_scheduler.ExponentialLR", "gamma": 0.5})
    component = {"name": "sgd", "lr": 0.5, "schedule": schedule}
    built: Any = dialog.DialogModule(
        network(), padding=PAD, optimizer=component
    ).configure_optimizers()
    built["optimizer"].step()
    built["lr_scheduler"]["scheduler"].step()
    assert built["optimizer"].param_groups[0]["lr"] == 0.25


@pytest.mark.parametrize("optimizer", ["adamw", "adam", "sgd"])
def test_optimizers_are_fused_where_torch_can(network: Network, optimizer: str) -> None:
    built: Any = dialog.DialogModule(
        network(), padding=PAD, optimizer={"name": optimizer}
    ).configure_optimizers()
    assert built["optimizer"].defaults["fused"]
    with torch.device("meta"):
        meta = nn.Linear(3, 3)
    assert not OPTIMIZERS[optimizer](decay_groups(meta.named_parameters())).defaults["fused"]


def test_a_fully_frozen_network_is_an_error(network: Network) -> None:
    with pytest.raises(ValueError, match="every parameter is frozen"):
        dialog.DialogModule(network().requires_grad_(False), padding=PAD).configure_optimizers()


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ({"name": "adamw", "betas": [0.9]}, r"^adamw: .*not enough values"),
        ({"name": "sgd", "nesterov": True, "momentum": 0.0}, r"^sgd: Nesterov"),
        ({"name": "sgd", "lr": -1.0}, r"^sgd: Invalid learning rate"),
        ({"name": "adadelta"}, r"unknown optimizer 'adadelta'"),
        (
            {"name": "adamw", "schedule": {"name": "cosine", "minimum": 2.0}},
            r"^cosine: minimum is a fraction of lr",
        ),
        (
            {"name": "adamw", "schedule": {"name": "linear", "steps": 0}},
            r"^linear: steps must be at least 1",
        ),
        (
            {"name": "adamw", "schedule": {"name": "linear", "warmup_steps": -1}},
            r"^linear: warmup_steps must be",
        ),
        (
            {"name": "adamw", "schedule": {"name": "one_cycle", "rise": 1.0}},
            r"^one_cycle: rise must be",
        ),
    ],
)
def test_invalid_arguments_are_errors(
    network: Network, component: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        dialog.DialogModule(network(), padding=PAD, optimizer=component).configure_optimizers()


def test_amsgrad_divides_by_the_largest_second_moment() -> None:
    """After one large gradient, AMSGrad keeps its divisor while Adam forgets it (beta 2 = 0.5)."""
    moved = {}
    for amsgrad in (False, True):
        weight = nn.Parameter(torch.zeros(1, 1))
        optimizer = build(
            OPTIMIZERS,
            {"name": "adam", "betas": [0.0, 0.5], "amsgrad": amsgrad},
            params=[{"params": [weight]}],
        )
        for gradient in (100.0, *[1.0] * 20):
            before = weight.item()
            weight.grad = torch.full((1, 1), gradient)
            optimizer.step()
        moved[amsgrad] = before - weight.item()
    assert moved[False] > 50 * moved[True] > 0
