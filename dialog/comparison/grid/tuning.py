"""Choose the values of ``--tune`` by trials, which train a contender with the first seed.

A trial is an ordinary run that is not evaluated. When all trials of a contender are trained, the
one with the lowest validation loss is chosen and recorded in tuning/<contender>/chosen.json.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dialog.atomic import write_json
from dialog.comparison.grid.folder import Contender, Grid, is_diverged, is_trained
from dialog.errors import UserError
from dialog.json_files import read_json, read_json_lines
from dialog.report.formats.results import TuningTrial
from dialog.runs.folder import METRICS, read_summary

CHOSEN = "chosen.json"
"""The label of the chosen values, and the validation loss of each trial."""

log = logging.getLogger("dialog")


def tune_of(current: Grid, requested: Sequence[str]) -> tuple[str, ...]:
    """Return the values of ``--tune``, which are the same for all recipes of a folder.

    Raises:
        UserError: the recipes of the folder have others.
    """
    recipes = [contender for contender in current.contenders if contender.kind == "recipe"]
    if recipes and requested and recipes[0].tune != tuple(requested):
        raise other_tune(current.folder, recipes[0])
    return recipes[0].tune if recipes else tuple(requested)


def other_tune(folder: Path, recipe: Contender) -> UserError:
    """Return the error for other values of ``--tune`` than a folder has."""
    values = f"has --tune {' --tune '.join(recipe.tune)}" if recipe.tune else "was begun without"
    return UserError(f"--tune: {folder} {values}; leave it out, or choose another --output")


def with_choices(grid: Grid) -> Grid:
    """Return the grid with the values of contenders whose trials are all trained, and record them.

    Every process makes the same choice, since it follows from the trials.
    """
    chosen = dict(grid.chosen)
    for contender in grid.contenders:
        if contender.tune and contender.name not in chosen and (label := choice(grid, contender)):
            chosen[contender.name] = label
    return replace(grid, chosen=chosen)


def choice(grid: Grid, contender: Contender) -> str | None:
    """Return the label of a contender's chosen values; None if a trial is missing or all diverged.

    Raises:
        UserError: the record is damaged.
    """
    record = record_of(grid, contender)
    losses = trial_losses(grid, contender)
    finite = {label: loss for label, loss in losses.items() if loss is not None}
    if len(losses) < len(contender.trials) or not finite:
        return None
    if not record.is_file():
        best = min(finite, key=finite.__getitem__)
        log.info("%s: %s is the best of %d trials", contender.name, best, len(losses))
        write_json(record, {"chosen": best, "bits_per_byte": losses})
    label = read_json(record, "chosen")["chosen"]
    if not isinstance(label, str) or label not in finite:
        raise UserError(f"{record}: damaged (chosen); restore it from a copy")
    return label


def all_diverged(grid: Grid, contender: Contender) -> bool:
    """Return whether a contender has trials, and all of them have diverged."""
    losses = trial_losses(grid, contender)
    complete = 0 < len(losses) == len(contender.trials)
    return complete and all(loss is None for loss in losses.values())


def trial_losses(grid: Grid, contender: Contender) -> dict[str, float | None]:
    """Return the validation loss of each finished trial by its label; None if it diverged.

    The loss is the lowest bits per byte of all validations, as in a sweep. Once values are chosen,
    the losses are those of the record.

    Raises:
        UserError: the record is damaged.
    """
    record = record_of(grid, contender)
    if record.is_file():
        losses = read_json(record, "bits_per_byte")["bits_per_byte"]
        if not isinstance(losses, dict) or losses.keys() != contender.trials.keys():
            raise UserError(f"{record}: damaged (other trials); restore it from a copy")
        for label, loss in losses.items():
            if loss is not None and not (isinstance(loss, float) and math.isfinite(loss)):
                raise UserError(f"{record}: damaged ({label}); restore it from a copy")
        return losses
    return {
        cell.trial: lowest_loss(cell.folder)
        for cell in grid.trial_cells(contender)
        if is_trained(cell.folder)
    }


def lowest_loss(folder: Path) -> float | None:
    """Return the lowest bits per byte on the validation split of a run; None if it diverged."""
    if is_diverged(folder):
        return None
    values = (line.get("validation/bits_per_byte") for line in read_json_lines(folder / METRICS))
    return min(
        (value for value in values if isinstance(value, float) and math.isfinite(value)),
        default=None,
    )


def tuning_results(grid: Grid) -> tuple[TuningTrial, ...]:
    """Return the finished trials."""
    entries = []
    for contender in grid.contenders:
        losses = trial_losses(grid, contender)
        for cell in grid.trial_cells(contender):
            if cell.trial not in losses:
                continue
            summary = read_summary(cell.folder)
            entries.append(
                TuningTrial(
                    contender.name,
                    cell.trial,
                    cell.seed,
                    losses[cell.trial],
                    diverged=losses[cell.trial] is None,
                    chosen=cell.trial == grid.chosen.get(contender.name),
                    seconds=summary.seconds if summary else None,
                    folder=str(cell.folder.relative_to(grid.folder)),
                )
            )
    return tuple(entries)


def record_of(grid: Grid, contender: Contender) -> Path:
    """Return the path of the choice of a contender."""
    return grid.folder / "tuning" / contender.name / CHOSEN
