"""Search space of a sweep: values and ranges of recipe keys, from a YAML file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.config.components import hint
from dialog.config.compose import is_path, shipped_folder
from dialog.config.yaml_layers import read_yaml
from dialog.errors import UserError

if TYPE_CHECKING:
    from optuna.trial import Trial


ALL = "all"
"""Section of a space that applies to every recipe."""

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
    "data.batch_examples",
    "data.corpus",
    "data.path",
    "data.filters",
    "checkpoint.patience",
)
"""Keys that determine how much data a trial trains on: equal for all recipes, never swept."""

Choice = Sequence[Any] | Mapping[str, Any]
"""List of values, or range {low, high} with ``log: true`` or ``step: n``; integer bounds and step
give integers.
"""

DIGITS = 3
"""Digits of a drawn number without a step, so that tuned recipes are easy to read and to publish.
"""


def spaces(path: Path, recipes: Sequence[str]) -> dict[str, dict[str, Choice]]:
    """Read the space of each recipe: the section ``all``, overridden by the section of its name.

    Raises:
        UserError: with file and line: a key of the budget, an unknown recipe, or an invalid choice.
    """
    layer = read_yaml(path)
    sections: dict[str, Any] = layer.values
    for name, section in sections.items():
        if name not in (ALL, *recipes):
            raise UserError(
                f"{layer.origin[name]}: {name} is not a recipe of this"
                f" sweep{hint(name, [ALL, *recipes])}"
            )
        if not isinstance(section, dict):
            raise UserError(
                f"{layer.origin[name]}: {name} must be a mapping of a recipe's keys to choices"
            )
        for key, choice in section.items():
            place = layer.origin.get(f"{name}.{key}", layer.origin[name])
            if any(
                f"{key}.".startswith(f"{fixed}.") or fixed.startswith(f"{key}.") for fixed in BUDGET
            ):
                raise UserError(
                    f"{place}: {key} is part of the budget, which is equal for all recipes; set it"
                    f" with {key}=..."
                )
            check_choice(choice, f"{place}: {key}")
    merged = {recipe: {**sections.get(ALL, {}), **sections.get(recipe, {})} for recipe in recipes}
    if empty := [recipe for recipe, space in merged.items() if not space]:
        raise UserError(f"{path}: no key to sweep for {', '.join(empty)}")
    return merged


def check_choice(choice: object, place: str) -> None:
    """Check that a choice is a list of scalars or a range."""
    if (
        isinstance(choice, list)
        and choice
        and all(isinstance(value, str | int | float | None) for value in choice)
    ):
        return
    if isinstance(choice, dict) and {"low", "high"} <= set(choice) <= {
        "low",
        "high",
        "log",
        "step",
    }:
        low = choice["low"]
        high = choice["high"]
        log = choice.get("log")
        step = choice.get("step")
        numbers = [low, high] if step is None else [low, high, step]
        if (
            all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
            and low < high
        ):
            if log is True and low > 0 and step is None:
                return
            if not log and (step is None or 0 < step <= high - low):
                return
    raise UserError(
        f"{place}: must be a list of values, or {{low, high}} with low < high, and log: true (low >"
        " 0) or step: n (0 < n <= high - low)"
    )


def suggest(trial: Trial, space: Mapping[str, Choice]) -> list[str]:
    """Draw a value for each key; return overrides of a recipe."""
    return [f"{key}={json.dumps(_value(trial, key, choice))}" for key, choice in space.items()]


def simplest(space: Mapping[str, Choice]) -> list[str]:
    """Return overrides with the first value of each key, to check that a recipe has these keys."""
    firsts = (
        choice["low"] if isinstance(choice, Mapping) else choice[0] for choice in space.values()
    )
    return [f"{key}={json.dumps(value)}" for key, value in zip(space, firsts, strict=True)]


def _value(trial: Trial, key: str, choice: Choice) -> Any:
    if not isinstance(choice, Mapping):
        return trial.suggest_categorical(key, list(choice))
    low = choice["low"]
    high = choice["high"]
    log = bool(choice.get("log"))
    step = choice.get("step")
    if isinstance(low, int) and isinstance(high, int) and (step or 1) % 1 == 0:
        return trial.suggest_int(key, low, high, step=int(step or 1), log=log)
    drawn = trial.suggest_float(key, low, high, step=step, log=log)
    return (
        drawn
        if step
        else min(max(low, _rounded(drawn, min(drawn, high - low) if log else high - low)), high)
    )


def _rounded(number: float, scale: float) -> float:
    """Round a number to as many decimals as `DIGITS` digits of ``scale`` have."""
    return round(number, DIGITS - 1 - math.floor(math.log10(scale)))


def sweep_file(folder: str, name: str, *, option: str) -> Path:
    """Return a path to YAML as it is, or the shipped file of a name in ``sweeps/<folder>``.

    Raises:
        UserError: unknown name; names the ``option`` of the command line.
    """
    if is_path(name):
        return Path(name)
    root = shipped_folder("sweeps")
    shipped = {path.stem: path for path in sorted((root / folder).glob("*.yaml"))}
    if name not in shipped:
        raise UserError(f"{option}: unknown name {name!r}{hint(name, shipped)}")
    return shipped[name]
