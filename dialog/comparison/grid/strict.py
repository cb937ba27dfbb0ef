"""``--strict``: the parity contract before training, as far as recipes determine it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dialog.build import build_model
from dialog.comparison.grid.folder import Contender, Grid
from dialog.comparison.parity import EvaluatedSystem, broken, parity
from dialog.errors import UserError


def check_strict(grid: Grid, data: Path | None) -> None:
    """Raise UserError if contenders differ in a setting that must be equal and that their recipes determine.

    Args:
        grid: Contenders and seeds.
        data: Prepared data, whose vocabulary determines the number of parameters; None without a recipe.
    """
    seeds = {name: [cell.seed for cell in grid.cells() if cell.contender.name == name] for name in names_of(grid)}
    recipes = [contender for contender in grid.contenders if contender.kind != "responses"]
    raise_broken(parity([planned_system(contender, seeds[contender.name], data) for contender in recipes]))


def names_of(grid: Grid) -> list[str]:
    """Return the names of the contenders."""
    return [contender.name for contender in grid.contenders]


def planned_system(contender: Contender, seeds: Sequence[int | None], data: Path | None) -> EvaluatedSystem:
    """Return a contender as it will be: recipe, seeds and number of parameters."""
    nothing = {"metrics": {}, "curve": [], "diverged": False, "steps": 0, "seconds": 0, "target_tokens": 0}
    runs: list[dict[str, Any]] = [{"seed": seed, **nothing} for seed in seeds]
    recipe = contender.composed.recipe
    parameters = {} if data is None else planned_parameters(contender, data)
    return EvaluatedSystem(recipe, {}, {"name": contender.name, "parameters": parameters, "runs": runs})


def planned_parameters(contender: Contender, data: Path) -> dict[str, int]:
    """Return the number of parameters of a contender with the vocabulary of the prepared data."""
    import torch

    from dialog.data.store.store import Store
    from dialog.models.seq2seq import count_parameters

    with torch.device("meta"):
        model = build_model(contender.composed.recipe.model, len(Store(data, "validation").tokenizer))
    return count_parameters(model)


def raise_broken(rows: Sequence[dict[str, Any]]) -> None:
    """Raise UserError with the settings of the parity contract that must be equal and are not."""
    if settings := broken(rows):
        raise UserError(f"--strict: the contenders differ in {'; '.join(settings)}")
