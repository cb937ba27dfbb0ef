"""Shipped recipes and groups: they compose, are short, and match the parameters that they state."""

from __future__ import annotations

import inspect
from dataclasses import fields
from pathlib import Path

import pytest

from dialog.config.compose import compose, group_files, shipped_folder, shipped_recipes
from dialog.config.schema import SECTIONS, TrainerConfig

DAILYDIALOG_TOKENS = 20_680
"""All words of DailyDialog, __SILENCE__ and the reserved tokens: recipes of a published protocol
set no limit.
"""
RECIPES = sorted(shipped_folder("recipes").rglob("*.yaml"))


def test_recipes_and_groups_ship() -> None:
    assert len(RECIPES) == len(shipped_recipes()) > 0
    assert {"data", "model", "optimizer", "trainer", "logger"} <= set(group_files(RECIPES[0]))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_shipped_recipe_is_short_and_described(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").split("\n")) <= 31
    recipe = compose(str(path)).recipe
    assert recipe.about.summary
    assert recipe.smoke
    compose(str(path), recipe.smoke)


@pytest.mark.parametrize(
    "name",
    [
        # its vocabulary is that of all its dialogues
        pytest.param(name, marks=pytest.mark.endurance) if name == "gym/selective_copy" else name
        for name in shipped_recipes()
    ],
)
def test_parameters_of_a_shipped_recipe(name: str) -> None:
    import torch

    from dialog.build import build_model
    from dialog.data.store.manifest import read_manifest
    from dialog.runs.prepare import prepare_data

    # fewer dialogues of a task have the same words, and all but one task the same tokens
    is_smaller = name.startswith(("gym/", "reverse/")) and name != "gym/selective_copy"
    recipe = compose(name, ["data.corpus.size=500"] if is_smaller else []).recipe
    vocabulary = recipe.data.tokenizer.get("vocabulary", DAILYDIALOG_TOKENS)
    if recipe.data.corpus["name"] in ("builtin", "synthetic"):  # has fewer tokens than it may
        vocabulary = read_manifest(prepare_data(recipe))["vocabulary"]
    with torch.device("meta"):
        model = build_model(recipe.model, vocabulary)
    assert recipe.about.parameters == sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("group", "choice"),
    [(group, choice) for group, choices in group_files(RECIPES[0]).items() for choice in choices],
)
def test_every_choice_of_every_group_composes(group: str, choice: str) -> None:
    made = compose("quickstart/transformer", [f"{group}={choice}"])
    places = [
        place
        for key, place in made.origin.items()
        if group not in SECTIONS or key.startswith(group)
    ]
    assert [place for place in places if f"{choice}.yaml:" in place]


def test_trainer_keys_are_arguments_of_lightning() -> None:
    from lightning.pytorch import Trainer as LightningTrainer

    theirs = inspect.signature(LightningTrainer).parameters
    own = [field.name for field in fields(TrainerConfig) if field.name not in theirs]
    # settings of torch, made before training, and of the step
    assert own == ["float32_matmul_precision", "graphs", "compile"]
