"""No step waits for the device: on the meta device, where no value can be read, every recipe trains
and generates.
"""

from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

import dialog
from dialog.build import build_module
from dialog.config.components import Component
from dialog.config.compose import shipped_recipes
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import BOS, PAD
from dialog.training.module import DialogModule

VOCABULARY = 300


class Shadow(NamedTuple):
    """A module and a batch without values; only the first batch is counted on a device."""

    module: DialogModule
    batch: Batch


# the recipes of one corpus have all architectures
RECIPES = [
    name if name.startswith("dailydialog/") else pytest.param(name, marks=pytest.mark.endurance)
    for name in shipped_recipes()
]


def one_layer(part: Component) -> Component:
    return part | {"layers": 1} if "layers" in part else part


@pytest.fixture(scope="module", params=RECIPES)
def shadow(request: pytest.FixtureRequest) -> Shadow:
    recipe = dialog.compose(request.param).recipe
    parts = {side: one_layer(getattr(recipe.model, side)) for side in ("encoder", "decoder")}
    with torch.device("meta"):
        module = build_module(replace(recipe, model=replace(recipe.model, **parts)), VOCABULARY)
        facts, source, target = torch.zeros(4), torch.ones(4, 6), torch.ones(4, 4)
    source, target, facts = (each.long() for each in (source, target, facts))
    return Shadow(module, Batch(source, target, facts, 40, 20, 100, facts, turn_shape=(2, 4)))


def test_a_training_step_reads_no_value(shadow: Shadow) -> None:
    module, batch = shadow.module.train(), shadow.batch
    module.training_step(batch, 1).backward()
    assert all(parameter.grad is not None for parameter in module.model.parameters())


@torch.no_grad()
def test_a_validation_step_reads_no_value(shadow: Shadow) -> None:
    shadow.module.eval().validation_step(shadow.batch, 1)


@torch.inference_mode()
def test_generating_a_token_reads_no_value(shadow: Shadow) -> None:
    model, source = shadow.module.model.eval(), shadow.batch.source
    memory, state = model.start(source, source != PAD, turn_shape=shadow.batch.turn_shape)
    tokens = source.new_full((len(source), 1), BOS)
    logits: Tensor
    for _ in range(2):
        logits, state = model.step(tokens, memory, state)
        tokens = logits.argmax(-1)
    assert logits.shape == (len(source), 1, VOCABULARY)
