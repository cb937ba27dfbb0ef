"""Resume a run at its newest complete checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

from dialog.config.schema import Recipe, to_dict
from dialog.config.trust import FULL_TRUST, NO_TRUST, Trust, check_importable
from dialog.errors import UserError
from dialog.paths import check_links
from dialog.ranks import is_first_process
from dialog.runs.check import check_recipe
from dialog.runs.folder import CHANGEABLE, END_KEYS, Trained, read_recipe, read_summary
from dialog.runs.prepare import prepare_data
from dialog.runs.train import run_training
from dialog.runs.weights import complete_finished

log = logging.getLogger("dialog")


def resume(
    folder: Path,
    overrides: Sequence[str] = (),
    *,
    trust: Trust = NO_TRUST,
    quiet: bool = False,
    advice: str | None = None,
) -> Trained:
    """Resume a run at its newest complete checkpoint, or from the beginning if it has none.

    Only `CHANGEABLE` keys may be overridden. Prepared data that are missing are prepared again;
    missing or damaged weights are rebuilt from best.ckpt. `advice` tells what to do after a signal,
    by default how to resume.

    Raises:
        UserError: not a run folder, locked by another process, or its corpus has changed.
        SystemExit: at the end of every rank but 0.
    """
    recipe, extended = resumed_recipe(folder, overrides, trust)
    check_importable(recipe, str(folder))
    if trust != FULL_TRUST:
        check_links(folder)
    trained = None if extended else read_summary(folder)
    if trained is not None:
        if not is_first_process():
            raise SystemExit(0)
        complete_finished(folder, recipe)
        log.info(
            "%s has finished at step %s; to train longer, raise trainer.max_steps or max_epochs",
            folder,
            trained.steps,
        )
        return trained
    check_recipe(recipe)
    data = prepare_data(recipe, quiet=quiet)
    return run_training(recipe, data, folder, resumed=True, advice=advice)


def check_same_checkpoints(before: Recipe, after: Recipe) -> None:
    """Check that checkpoints keep their meaning: what best.ckpt is best in, and which weights they
    hold.
    """
    for name in ("monitor", "averaging"):
        if getattr(before.checkpoint, name) != getattr(after.checkpoint, name):
            raise UserError(
                f"--resume: checkpoint.{name} cannot change within a run; start a new run for it"
            )


def resumed_recipe(folder: Path, overrides: Sequence[str], trust: Trust) -> tuple[Recipe, bool]:
    """Return the recipe of the run to resume, and whether overrides change when its training ends.

    Raises:
        UserError: not a run folder, or an override of a key that must not change within a run.
    """
    keys = [override.partition("=")[0].removeprefix("~") for override in overrides]
    for key in keys:
        if not any(key == free or key.startswith(f"{free}.") for free in CHANGEABLE):
            raise UserError(
                f"--resume: {key} cannot change within a run, only {', '.join(CHANGEABLE)}; start a"
                " new run for it"
            )
    before = read_recipe(folder)
    recipe = read_recipe(folder, overrides, trust=trust)
    check_same_checkpoints(before, recipe)
    old = to_dict(before)
    new = to_dict(recipe)
    ends = [key.split(".") for key in END_KEYS]
    return recipe, any(old[section][name] != new[section][name] for section, name in ends)
