"""What a search may choose: choices and ranges of a recipe's keys, from a YAML file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.config.components import hint
from dialog.config.compose import asset_folders
from dialog.config.yaml_layers import read_yaml
from dialog.errors import UserError

if TYPE_CHECKING:
    from optuna.trial import Trial

ALL = "all"
"""The section whose keys every recipe has."""

BUDGET = (
    "trainer.max_steps",
    "trainer.max_epochs",
    "trainer.max_time",
    "trainer.limit_train_batches",
    "trainer.overfit_batches",
    "trainer.accumulate_grad_batches",
    "trainer.val_check_interval",
    "trainer.check_val_every_n_epoch",
    "data.batch_tokens",
    "data.corpus",
    "data.path",
    "data.filters",
    "checkpoint.patience",
)
"""What says how much a trial may learn from: no search chooses it, and it is the same for all recipes."""

Choice = Sequence[Any] | Mapping[str, Any]
"""A list of values, or ``{low, high}`` with ``log: true`` or ``step: n``; two whole numbers mean whole numbers."""


def space_file(name: str) -> Path:
    """A path to YAML, or the name of a space that ships."""
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    known = {
        path.stem: path for root in reversed(asset_folders("sweeps")) for path in sorted(root.glob("spaces/*.yaml"))
    }
    if name not in known:
        raise UserError(f"--space: unknown space {name!r}{hint(name, known)}")
    return known[name]


def spaces(path: Path, recipes: Sequence[str]) -> dict[str, dict[str, Choice]]:
    """The space of each recipe: the section ``all``, and over it the section of its name.

    Raises:
        UserError: with file and line; a key of the budget, a section of no recipe, or what is no choice.
    """
    layer = read_yaml(path)
    sections: dict[str, Any] = layer.values
    for name, section in sections.items():
        if name not in (ALL, *recipes):
            raise UserError(f"{layer.origin[name]}: {name} is not a recipe of this sweep{hint(name, [ALL, *recipes])}")
        if not isinstance(section, dict):
            raise UserError(f"{layer.origin[name]}: {name} must be a mapping of a recipe's keys to choices")
        for key, choice in section.items():
            place = layer.origin.get(f"{name}.{key}", layer.origin[name])
            if any(key == each or key.startswith(f"{each}.") or each.startswith(f"{key}.") for each in BUDGET):
                raise UserError(f"{place}: {key} is part of the budget, which is equal for all; set it with {key}=...")
            check_choice(choice, f"{place}: {key}")
    made = {recipe: {**sections.get(ALL, {}), **sections.get(recipe, {})} for recipe in recipes}
    if empty := [recipe for recipe, space in made.items() if not space]:
        raise UserError(f"{path}: there is nothing to choose for {', '.join(empty)}")
    return made


def check_choice(choice: object, place: str) -> None:
    """Refuse what is neither a list of plain values nor a range."""
    if isinstance(choice, list) and choice and all(isinstance(each, str | int | float | None) for each in choice):
        return
    if isinstance(choice, dict) and {"low", "high"} <= set(choice) <= {"low", "high", "log", "step"}:
        low, high = choice["low"], choice["high"]
        numbers = all(isinstance(each, int | float) for each in (low, high))
        if numbers and low < high and (low > 0 or not choice.get("log")):
            return
    raise UserError(f"{place}: must be a list of values, or {{low, high}} with low < high and log: true or step: n")


def suggest(trial: Trial, space: Mapping[str, Choice]) -> list[str]:
    """A value for each key, as overrides of a recipe."""
    return [f"{key}={json.dumps(_value(trial, key, choice))}" for key, choice in space.items()]


def simplest(space: Mapping[str, Choice]) -> list[str]:
    """The first value of each key: enough to see whether a recipe has these keys."""
    firsts = (choice["low"] if isinstance(choice, Mapping) else choice[0] for choice in space.values())
    return [f"{key}={json.dumps(value)}" for key, value in zip(space, firsts, strict=True)]


def _value(trial: Trial, key: str, choice: Choice) -> Any:  # noqa: ANN401 - whatever the space says
    if not isinstance(choice, Mapping):
        return trial.suggest_categorical(key, list(choice))
    low, high, log, step = choice["low"], choice["high"], bool(choice.get("log")), choice.get("step")
    if isinstance(low, int) and isinstance(high, int):
        return trial.suggest_int(key, low, high, step=int(step or 1), log=log)
    return trial.suggest_float(key, low, high, step=step, log=log)
