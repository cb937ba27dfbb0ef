"""Results and costs of a sweep: results.json and a table."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

RESULTS = "results.json"
RUNS = "runs"
"""Names in the folder of a sweep: its results, and the runs of its trials."""
HEAD = (
    "recipe",
    "best bits per byte",
    "trials",
    "pruned",
    "failed",
    "target tokens",
    "seconds",
    "best values",
)


def spent(study: Study) -> list[FrozenTrial]:
    """Return the finished trials: complete, pruned or failed, but not interrupted."""
    return [
        trial for trial in study.trials if "spent" in trial.user_attrs and trial.state.is_finished()
    ]


def best_of(study: Study) -> FrozenTrial | None:
    """Return the complete trial with the lowest value."""
    complete = [trial for trial in spent(study) if trial.state.name == "COMPLETE"]
    return min(complete, key=attrgetter("value"), default=None)


def best_file(name: str) -> str:
    """Return the path of a recipe's best trial, relative to the folder of the sweep."""
    return f"best/{name}.yaml"


def results(settings: Mapping[str, Any], studies: Mapping[str, Study]) -> dict[str, Any]:
    """Return a sweep as plain containers; values are bits per byte on the validation split, lower
    is better.
    """
    return {
        "settings": dict(settings),
        "recipes": [_recipe(name, study) for name, study in studies.items()],
    }


def _recipe(name: str, study: Study) -> dict[str, Any]:
    trials = spent(study)
    best = best_of(study)
    states = [trial.state.name for trial in trials]
    sums = {
        key: sum(trial.user_attrs["spent"][key] for trial in trials)
        for key in ("seconds", "steps", "target_tokens")
    }
    counts = {
        "trials": len(trials),
        "pruned": states.count("PRUNED"),
        "failed": states.count("FAIL"),
    }
    return {
        "name": name,
        "best": None if best is None else {**_trial(best), "recipe": best_file(name)},
        "spent": {**counts, **sums, "interrupted": len(study.trials) - len(trials)},
        "trials": [_trial(trial) for trial in trials],
    }


def _trial(trial: FrozenTrial) -> dict[str, Any]:
    attributes = trial.user_attrs
    last = (
        trial.intermediate_values[max(trial.intermediate_values)]
        if trial.intermediate_values
        else None
    )
    return {
        "trial": trial.number,
        "state": trial.state.name.lower(),
        "value": last if trial.value is None else trial.value,
        "overrides": attributes["overrides"],
        "reason": attributes["reason"],
        **attributes["spent"],
    }


def to_markdown(sweep: Mapping[str, Any]) -> str:
    """Return a table with a line per recipe."""
    lines = [HEAD, ("---",) * len(HEAD), *(_line(recipe) for recipe in sweep["recipes"])]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _line(recipe: Mapping[str, Any]) -> tuple[str, ...]:
    used = recipe["spent"]
    best = recipe["best"]
    value, chosen = (
        ("-", "-") if best is None else (f"{best['value']:.4f}", " ".join(best["overrides"]))
    )
    counts = (str(used[key]) for key in ("trials", "pruned", "failed"))
    return (
        recipe["name"],
        value,
        *counts,
        f"{used['target_tokens']:,}",
        f"{used['seconds']:.0f}",
        chosen,
    )
