"""Joint training from a recipe: invalid objectives are errors, and runs log every objective."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dialog
from dialog.errors import UserError
from dialog.runs.check import check_recipe
from dialog.runs.train import train
from dialog.training.objectives import build_objectives


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ({"name": "denoise"}, "did you mean 'denoising'"),
        ({"name": "denoising", "weight": -1.0}, "weight must be a number of at least 0"),
        ({"name": "denoising", "weight": "much"}, "weight must be a number of at least 0"),
        ({"name": "denoising", "deletion": 1.5}, r"deletion must be in \[0, 1\]"),
        ({"name": "denoising", "distance": -1}, "distance must be at least 0"),
        (
            {"name": "reverse", "schedule": {"name": "linear"}},
            "linear: missing required argument: steps",
        ),
        ({"name": "denoising", "tokenizer": 1}, "is set by the recipe's other parts"),
    ],
)
def test_an_invalid_objective_is_an_error(component: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_objectives([component], tokenizer=None)


JOINT = (
    "model.objectives=[{name: denoising, weight: 0.5}, {name: reverse, weight: 0.1},"
    " {name: context, weight: 0.2}]",
    "model.teacher_forcing={name: linear, steps: 10, end: 0.5}",
    "model.loss={name: r_drop, loss: {name: unlikelihood}}",
    "model.head={name: pointer_generator, coverage: 1.0}",
)


@pytest.mark.parametrize("family", ["lstm", "transformer"])
def test_a_run_with_everything(tiny: Callable[..., Any], tmp_path: Path, family: str) -> None:
    settings = [
        "trainer.max_steps=4",
        "trainer.val_check_interval=4",
        "trainer.log_every_n_steps=1",
    ]
    train(tiny(family, *JOINT, *settings), tmp_path / family, quiet=True)
    lines = [
        json.loads(line)
        for line in (tmp_path / family / "metrics.jsonl").read_text("utf-8").splitlines()
    ]
    names = (
        "loss",
        "objective",
        "denoising",
        "reverse",
        "context",
        "coverage",
        "generation_probability",
        "teacher_forcing",
    )
    steps = [line for line in lines if "train/loss" in line]
    assert len(steps) == 4
    assert all(line[f"train/{name}"] > 0 for line in steps for name in names)
    assert [line["train/teacher_forcing"] for line in steps] == pytest.approx(
        [1.0, 0.95, 0.9, 0.85]
    )
    assert all(line["train/objective"] > line["train/loss"] for line in steps)
    assert [line for line in lines if "validation/loss" in line]
    run = dialog.load(tmp_path / family)
    assert run.recipe.model.objectives[0] == {"name": "denoising", "weight": 0.5}
    assert run.respond(["Hello."]).text is not None


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "model.objectives=[{name: denoising, path: gone.txt}]",
            r"model: denoising: path: gone\.txt is not a file",
        ),
        ("model.objectives=[{name: translation}]", "model: unknown objective 'translation'"),
        ("model.teacher_forcing={name: linear}", "model: linear: missing required argument: steps"),
        ("model.teacher_forcing={name: constant, sampled: often}", "sampled must be bool"),
    ],
)
def test_an_invalid_recipe_writes_nothing(
    tiny: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    override: str,
    message: str,
) -> None:
    monkeypatch.setenv("DIALOG_CACHE", str(tmp_path / "cache"))
    with pytest.raises(UserError, match=message):
        train(tiny("transformer", override), tmp_path / "run", quiet=True)
    assert not list(tmp_path.iterdir())


def test_a_run_reads_its_text(tiny: Callable[..., Any], tmp_path: Path, text: Path) -> None:
    settings = [f"model.objectives=[{{name: denoising, path: {text}}}]", "trainer.max_steps=2"]
    check_recipe(tiny("transformer", *settings).recipe)
    train(
        tiny("transformer", *settings, "trainer.val_check_interval=2"), tmp_path / "run", quiet=True
    )
    assert (tmp_path / "run" / "model.safetensors").is_file()
