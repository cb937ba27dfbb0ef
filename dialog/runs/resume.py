"""Resume a run at its newest complete checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from dialog.build import check_recipe
from dialog.config.compose import compose
from dialog.config.schema import Recipe
from dialog.errors import UserError
from dialog.ranks import is_first_process
from dialog.runs.folder import Trained, outcome
from dialog.runs.load import refuse_imports
from dialog.runs.prepare import prepare_data
from dialog.runs.train import run_training

log = logging.getLogger("dialog")


def resume(folder: Path, overrides: Sequence[str] = (), *, trust: bool = False, quiet: bool = False) -> Trained:
    """Go on with a run where its newest whole checkpoint is, or from the beginning where there is none yet.

    Of its recipe only what makes it no other run may be overridden. Prepared data that are gone are prepared again.

    Raises:
        UserError: not a run folder, one in which another process trains, or one whose corpus has changed.
        SystemExit: at the end of every process but the first.
    """
    recipe, longer = continued(folder, overrides)
    if not trust:
        refuse_imports(recipe, folder)
    trained = None if longer else outcome(folder)
    if trained is not None:
        if not is_first_process():
            raise SystemExit(0)
        log.info(
            "%s has ended, at step %s; to train longer, raise trainer.max_steps or max_epochs", folder, trained.steps
        )
        return trained
    check_recipe(recipe)
    data = prepare_data(recipe, quiet=quiet)
    return run_training(recipe, data, folder, resumed=True)


ENDS = ("trainer.max_epochs", "trainer.max_steps", "trainer.max_time", "checkpoint.patience")
"""Where a run ends: with another of these a run that has ended goes on."""


FREE = (
    *ENDS, "trainer.accelerator", "trainer.devices", "trainer.num_nodes", "trainer.enable_progress_bar",
    "trainer.log_every_n_steps", "checkpoint", "logger", "data.path",
)  # fmt: skip
"""Keys and sections that may change: they say where a run is computed and what is kept of it, not what it computes."""


def continued(folder: Path, overrides: Sequence[str]) -> tuple[Recipe, bool]:
    """The recipe of a run that is gone on with, and whether it is to be longer than it was.

    Raises:
        UserError: not a run folder, or an override that would make it another run.
    """
    path = folder / "recipe.yaml"
    if not path.is_file():
        raise UserError(f"{folder} is not a run folder: it has no recipe.yaml")
    keys = [each.partition("=")[0].removeprefix("~") for each in overrides]
    for key in keys:
        if not any(key == free or key.startswith(f"{free}.") for free in FREE):
            raise UserError(
                f"--resume: {key} cannot change within a run, only {', '.join(FREE)}; start a new run for it"
            )
    return compose(str(path), overrides).recipe, any(key in ENDS for key in keys)
