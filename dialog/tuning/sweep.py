"""A search for hyperparameters with the same budget for every recipe; it can be stopped and gone on with."""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from dialog.atomic import write_json, write_text
from dialog.build import check_recipe
from dialog.config.components import lookup
from dialog.config.compose import Composed, compose
from dialog.config.schema import to_dict
from dialog.errors import UserError
from dialog.runs.train import train as train_run
from dialog.training.callbacks.trial import PrunedError, TrialWatch
from dialog.tuning.results import best_file, best_of, results, spent, to_markdown
from dialog.tuning.space import BUDGET, Choice, suggest

SETTINGS, JOURNAL = "search.json", "journal.log"
SAMPLERS = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}

log = logging.getLogger("dialog")


@dataclass(frozen=True)
class Settings:
    """What was asked for; with the recipes beside it, all that going on needs.

    Every recipe gets so many ``trials`` of the same length, and one that is pruned or fails is a trial too. Each draws
    from a ``sampler`` that is seeded by its number: a search that was stopped goes on as it would have.
    """

    spaces: Mapping[str, Mapping[str, Choice]]
    trials: int
    seed: int = 1
    sampler: str = "tpe"
    prune: bool = True


def check(recipes: Sequence[Composed]) -> None:
    """Refuse recipes that no trial could be of.

    Raises:
        UserError: they have different budgets, or one cannot be trained here.
    """
    first, *others = [(each.name, to_dict(each.recipe)) for each in recipes]
    for name, other in others:
        for key in BUDGET:
            mine, theirs = (_value(tree, key) for tree in (first[1], other))
            if mine != theirs:
                raise UserError(
                    f"the budgets differ: {key} is {mine} in {first[0]} and {theirs} in {name}; give it once for all"
                )
    for each in recipes:
        if check_recipe(each.recipe) > 1:
            raise UserError("trainer.devices: a trial trains in one process; set it to 1")


def begin(recipes: Sequence[Composed], settings: Settings, folder: Path) -> None:
    """Write what is asked for into a new folder."""
    for each in recipes:
        path = recipe_file(folder, each.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, each.yaml())
    write_json(folder / SETTINGS, asdict(settings))


def search(folder: Path, settings: Settings) -> dict[str, Any]:
    """Run the trials that a folder lacks, the recipes in turn; what was found, which is in the folder too."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL)))
    studies = {name: study(storage, name, settings) for name in settings.spaces}
    found = write_results(folder, settings, studies)
    while min(len(spent(each)) for each in studies.values()) < settings.trials:
        for name, each in studies.items():
            if len(spent(each)) < settings.trials:
                one_trial(each, name, settings, folder)
                found = write_results(folder, settings, studies)
    return found


def study(storage: BaseStorage, name: str, settings: Settings) -> optuna.Study:
    """The trials of a recipe so far; one that was interrupted is put back, to be run first."""
    pruner = optuna.pruners.MedianPruner(n_startup_trials=4) if settings.prune else optuna.pruners.NopPruner()
    made = optuna.create_study(
        study_name=name, storage=storage, pruner=pruner, direction="minimize", load_if_exists=True
    )
    for trial in made.get_trials(states=[TrialState.RUNNING]):
        made.tell(trial.number, state=TrialState.FAIL)
        made.enqueue_trial(trial.params)
    return made


def one_trial(made: optuna.Study, name: str, settings: Settings, folder: Path) -> None:
    """Train a recipe with values that the sampler chooses, and note what came of it."""
    number = len(spent(made))
    made.sampler = lookup(SAMPLERS, settings.sampler, "sampler")(seed=settings.seed * 10_000 + number)
    trial = made.ask()
    overrides = suggest(trial, settings.spaces[name])
    composed = compose(str(recipe_file(folder, name)), overrides)
    began = time.monotonic()
    watch, state, reason = train(trial, composed, runs(folder, name) / f"{trial.number:03}")
    seconds = round(time.monotonic() - began, 1)
    used = {"steps": watch.steps, "target_tokens": watch.target_tokens, "seconds": seconds}
    for key, value in {"overrides": overrides, "reason": reason, "spent": used}.items():
        trial.set_user_attr(key, value)
    made.tell(trial, watch.lowest if state == TrialState.COMPLETE else None, state)
    said = f"{state.name.lower()}, {watch.lowest:.4f} bits per byte at best {reason}"
    log.info("%s, trial %d of %d: %s (%s)", name, number + 1, settings.trials, said.strip(), " ".join(overrides))
    keep_best(made, trial, composed, folder)


def train(trial: optuna.Trial, composed: Composed, run: Path) -> tuple[TrialWatch, TrialState, str]:
    """A run of a trial: what was seen, what became of it, and if it failed why."""

    def stop(validation: int, value: float) -> bool:
        trial.report(value, validation)
        return trial.should_prune()

    watch = TrialWatch(stop)
    try:
        train_run(composed, run, quiet=True, callbacks=[watch])
    except PrunedError:
        return watch, TrialState.PRUNED, ""
    except UserError as error:
        return watch, TrialState.FAIL, str(error)
    return watch, TrialState.COMPLETE, ""


def keep_best(made: optuna.Study, trial: optuna.Trial, composed: Composed, folder: Path) -> None:
    """The best trial's recipe and weights stay; of the others the records do."""
    best = best_of(made)
    if best is not None and best.number == trial.number:
        path = folder / best_file(made.study_name)
        path.parent.mkdir(parents=True, exist_ok=True)
        head = f"# Trial {best.number} of a search: {best.value:.4f} bits per byte (validation)\n"
        write_text(path, head + composed.yaml())
    for run in runs(folder, made.study_name).glob("*"):
        if best is None or run.name != f"{best.number:03}":
            shutil.rmtree(run / "checkpoints", ignore_errors=True)
            (run / "model.safetensors").unlink(missing_ok=True)


def write_results(folder: Path, settings: Settings, studies: Mapping[str, optuna.Study]) -> dict[str, Any]:
    """``results.json`` and ``search.md``."""
    found = results(asdict(settings), studies)
    write_json(folder / "results.json", found)
    write_text(folder / "search.md", to_markdown(found))
    return found


def recipe_file(folder: Path, name: str) -> Path:
    """Where a search keeps the recipe that it varies."""
    return folder / "recipes" / f"{name}.yaml"


def runs(folder: Path, name: str) -> Path:
    """Where the trials of a recipe are."""
    return folder / "runs" / name


def _value(tree: Mapping[str, Any], key: str) -> Any:  # noqa: ANN401 - whatever the recipe says
    for part in key.split("."):
        tree = tree[part]
    return tree
