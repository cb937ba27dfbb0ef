"""Hyperparameter sweep with the same budget for every recipe; it can be interrupted and resumed."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from dialog.atomic import lock, write_json, write_text
from dialog.config.components import lookup
from dialog.config.compose import Composed, compose
from dialog.config.schema import to_dict, to_yaml
from dialog.config.trust import FULL_TRUST, NO_TRUST, Trust
from dialog.errors import DivergedError, UserError
from dialog.escaping import json_copy
from dialog.json_files import read_json
from dialog.paths import check_links, created_folder, is_inner_path
from dialog.runs.check import check_recipe
from dialog.runs.train import PartOf
from dialog.runs.train import train as train_run
from dialog.signals import stopping
from dialog.training.callbacks.trial import PrunedError, TrialWatch
from dialog.tuning.results import RESULTS, RUNS, best_file, best_of, results, spent, to_markdown
from dialog.tuning.space import BUDGET, Choice, suggest

SETTINGS = "sweep.json"
JOURNAL = "journal.log"
PRUNED_FROM = 0.5
"""Fraction of its length that every trial may train: earlier, trials with much dropout or a long
warm-up look worse.
"""
SAMPLERS = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}

log = logging.getLogger("dialog")


@dataclass(frozen=True)
class SweepSettings:
    """Settings of a sweep; with the recipes in its folder, all that resuming needs.

    Every recipe gets ``trials`` trials of the same length; pruned and failed trials count. With
    ``prune``, a trial of which half is done stops if its best value so far is worse than the median
    of at least four earlier trials at the same validation. The ``sampler`` of a trial is seeded by
    the trial's number, so an interrupted sweep continues as if uninterrupted.
    """

    spaces: Mapping[str, Mapping[str, Choice]]
    trials: int
    seed: int = 1
    sampler: str = "tpe"
    prune: bool = True


def check(recipes: Sequence[Composed]) -> None:
    """Check that recipes have the same budget and can be trained.

    Raises:
        UserError: different budgets, an invalid recipe, or one for several processes.
    """
    first, *others = [(composed.name, to_dict(composed.recipe)) for composed in recipes]
    for name, other in others:
        for key in BUDGET:
            mine, theirs = (_value(tree, key) for tree in (first[1], other))
            if mine != theirs:
                raise UserError(
                    f"the budgets differ: {key} is {mine} in {first[0]} and {theirs} in {name};"
                    " override it for all"
                )
    for composed in recipes:
        if check_recipe(composed.recipe) > 1:
            raise UserError("trainer.devices: a trial trains in one process; set it to 1")


def create(recipes: Sequence[Composed], settings: SweepSettings, folder: Path) -> None:
    """Write recipes and settings into a new folder."""
    with created_folder(folder) as new:
        for composed in recipes:
            path = recipe_file(new, composed.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, composed.yaml())
        write_json(new / SETTINGS, asdict(settings))


def read_settings(folder: Path) -> SweepSettings:
    """Read the settings that `create` has written, or somebody else.

    Raises:
        UserError: not the folder of a sweep, its settings are damaged or of another version, or a
            name in them leads out of the folder.
    """
    path = folder / SETTINGS
    if not path.is_file():
        raise UserError(f"--resume {folder}: not the folder of a sweep: it has no {SETTINGS}")
    settings = read_json(path, "spaces", "trials")
    unknown = sorted(set(settings) - {field.name for field in fields(SweepSettings)})
    if unknown:
        raise UserError(
            f"{path}: unknown setting {unknown[0]!r}; remove it, or restore the file from a copy"
        )
    if not isinstance(settings["spaces"], dict):
        raise UserError(f"{path}: damaged (spaces is no mapping); restore the file from a copy")
    for name in settings["spaces"]:
        if not is_inner_path(name):
            raise UserError(
                f"{path}: the name {name!r} leads out of the folder; restore the file from a copy"
            )
    return SweepSettings(**settings)


def sweep(folder: Path, settings: SweepSettings, trust: Trust = NO_TRUST) -> dict[str, Any]:
    """Run the trials that a folder lacks, recipes in turn; return the results, which are also
    written.

    Several processes can share the work: one of them at a time trains a recipe, since the values of
    a trial depend on the trials before it. A process ends when it finds no recipe to train.

    Raises:
        UserError: other processes train all recipes that lack trials.
    """
    if trust != FULL_TRUST:
        check_links(folder)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with stopping(resume_advice(folder)):
        storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL)))
        write_results(folder, settings, storage)
        trained = False
        while sum(train_next(storage, name, settings, folder, trust) for name in settings.spaces):
            trained = True
        written = write_results(folder, settings, storage)
    if any(recipe["spent"]["trials"] < settings.trials for recipe in written["recipes"]):
        if not trained:
            raise UserError(f"{folder}: other processes train all recipes that lack trials")
        log.info("%s: other processes train the remaining trials", folder)
    return written


def train_next(
    storage: BaseStorage, name: str, settings: SweepSettings, folder: Path, trust: Trust
) -> bool:
    """Run the next trial of a recipe; return False if it has all of them or another process trains
    it.
    """
    file = recipe_file(folder, name)
    with lock(file.with_name(f".{file.name}.lock")) as free:
        if not free:
            return False
        study = open_study(storage, name, settings)
        enqueue_interrupted(study)
        if len(spent(study)) >= settings.trials:
            return False
        run_trial(study, name, settings, folder, trust)
    write_results(folder, settings, storage)
    return True


def resume_advice(folder: Path) -> str:
    """Return what to do after a sweep was stopped."""
    return f"resume the sweep: python -m dialog sweep --resume {folder}"


def open_study(storage: BaseStorage, name: str, settings: SweepSettings) -> optuna.Study:
    """Load or create the study of a recipe."""
    pruner = (
        optuna.pruners.MedianPruner(n_startup_trials=4)
        if settings.prune
        else optuna.pruners.NopPruner()
    )
    return optuna.create_study(
        study_name=name, storage=storage, pruner=pruner, direction="minimize", load_if_exists=True
    )


def enqueue_interrupted(study: optuna.Study) -> None:
    """Enqueue an interrupted trial again, to be run first."""
    for trial in study.get_trials(states=[TrialState.RUNNING]):
        study.tell(trial.number, state=TrialState.FAIL)
        study.enqueue_trial(trial.params)


def run_trial(
    study: optuna.Study, name: str, settings: SweepSettings, folder: Path, trust: Trust
) -> None:
    """Train a recipe with values drawn by the sampler, and record the outcome."""
    number = len(spent(study))
    study.sampler = lookup(SAMPLERS, settings.sampler, "sampler")(
        seed=settings.seed * 10_000 + number
    )
    trial = study.ask()
    overrides = suggest(trial, settings.spaces[name])
    composed = compose(str(recipe_file(folder, name)), overrides, trust=trust)
    began = time.monotonic()
    watch, state, reason = train(trial, composed, folder, name)
    seconds = round(time.monotonic() - began, 1)
    used = {"steps": watch.steps, "target_tokens": watch.target_tokens, "seconds": seconds}
    for key, value in {"overrides": overrides, "reason": reason, "spent": used}.items():
        trial.set_user_attr(key, value)
    study.tell(trial, watch.lowest if state == TrialState.COMPLETE else None, state)
    outcome = f"{state.name.lower()}, {watch.lowest:.4f} bits per byte at best {reason}"
    log.info(
        "%s, trial %d of %d: %s (%s)",
        name,
        number + 1,
        settings.trials,
        outcome.strip(),
        " ".join(overrides),
    )
    keep_best(study, folder)


def train(
    trial: optuna.Trial, composed: Composed, folder: Path, name: str
) -> tuple[TrialWatch, TrialState, str]:
    """Train one trial of a recipe; return its validations, its state, and the reason if it
    failed.
    """
    run = runs(folder, name) / f"{trial.number:03}"
    part_of = PartOf(f"{name} trial {run.name}", folder.name, resume_advice(folder))

    def stop(validation: int, value: float, done: float) -> bool:
        trial.report(value, validation)
        return done >= PRUNED_FROM and trial.should_prune()

    watch = TrialWatch(stop)
    try:
        train_run(composed, run, quiet=True, callbacks=[watch], part_of=part_of)
    except PrunedError:
        return watch, TrialState.PRUNED, ""
    except (UserError, DivergedError) as error:
        return watch, TrialState.FAIL, str(error)
    return watch, TrialState.COMPLETE, ""


def keep_best(study: optuna.Study, folder: Path) -> None:
    """Keep the recipe of the best trial, with the number of trials so far, and its weights; of the
    others the records.

    A comparison reads the number from ``about.trials`` and checks that its models had equally many.
    """
    best = best_of(study)
    if best is not None:
        recipe = compose(
            str(recipe_file(folder, study.study_name)), best.user_attrs["overrides"]
        ).recipe
        recipe.about.trials = len(spent(study))
        path = folder / best_file(study.study_name)
        path.parent.mkdir(parents=True, exist_ok=True)
        number = f"{spent(study).index(best) + 1} of {recipe.about.trials}"
        run = runs(Path(), study.study_name) / f"{best.number:03}"
        head = f"# Trial {number} of a sweep ({run}): {best.value:.4f} bits per byte (validation)\n"
        write_text(path, head + to_yaml(recipe))
    for run in runs(folder, study.study_name).glob("*"):
        if best is None or run.name != f"{best.number:03}":
            shutil.rmtree(run / "checkpoints", ignore_errors=True)
            (run / "model.safetensors").unlink(missing_ok=True)


def write_results(folder: Path, settings: SweepSettings, storage: BaseStorage) -> dict[str, Any]:
    """Write results.json and sweep.md; return the results."""
    # so that no process replaces newer results by older ones
    with lock(folder / ".lock", wait=True):
        studies = {name: open_study(storage, name, settings) for name in settings.spaces}
        content = json_copy(results(asdict(settings), studies))
        write_json(folder / RESULTS, content)
        write_text(folder / "sweep.md", to_markdown(content))
    return content


def recipe_file(folder: Path, name: str) -> Path:
    """Return the path of the recipe that a sweep varies."""
    return folder / "recipes" / f"{name}.yaml"


def runs(folder: Path, name: str) -> Path:
    """Return the folder of a recipe's trials."""
    return folder / RUNS / name


def _value(tree: Mapping[str, Any], key: str) -> Any:
    for part in key.split("."):
        tree = tree[part]
    return tree
