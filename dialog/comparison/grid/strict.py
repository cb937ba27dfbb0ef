"""``--strict``: reject contenders that break the parity contract, before training and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dialog.build import build_model
from dialog.comparison.grid.folder import Contender, Grid
from dialog.comparison.parity import EvaluatedSystem, broken, parity
from dialog.errors import UserError


def check_strict(grid: Grid, data: Mapping[str, Path]) -> None:
    """Raise UserError if contenders differ in a setting that must be equal and that their recipes
    determine.

    Args:
        grid: Contenders and seeds.
        data: Folders of prepared data, by contender; of files of responses there are none.
    """
    trained = [contender for contender in grid.contenders if contender.name in data]
    seeds = {
        contender.name: [cell.seed for cell in grid.cells() if cell.contender == contender]
        for contender in trained
    }
    systems = [
        planned_system(contender, seeds[contender.name], data[contender.name])
        for contender in trained
    ]
    if systems:
        raise_broken(parity(systems))


def planned_system(
    contender: Contender, seeds: Sequence[int | None], data: Path
) -> EvaluatedSystem:
    """Return a contender as it will be: recipe, seeds, fingerprints of its data, and number of
    parameters.
    """
    import torch

    from dialog.data.store.store import Store
    from dialog.models.seq2seq import count_parameters

    nothing: dict[str, Any] = {"curve": [], "steps": None, "seconds": None, "target_tokens": None}
    runs: list[dict[str, Any]] = [{"seed": seed, **nothing} for seed in seeds]
    store = Store(data, "validation")
    with torch.device("meta"):
        model = build_model(contender.composed.recipe.model, len(store.tokenizer))
    entry = {"name": contender.name, "parameters": count_parameters(model), "runs": runs}
    fingerprints = {"data": store.manifest["fingerprint"], "tokenizer": store.tokenizer.fingerprint}
    return EvaluatedSystem(contender.composed.recipe, fingerprints, entry, {})


def raise_broken(rows: Sequence[dict[str, Any]], report: Path | None = None) -> None:
    """Raise UserError with the settings of the parity contract that must be equal and are not, and
    the report.
    """
    if settings := broken(rows):
        where = "" if report is None else f"; the report is in {report}"
        raise UserError(f"--strict: the contenders differ in {'; '.join(settings)}{where}")
