"""Parity contract: the settings that must be equal in a fair comparison, and those that readers need to know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dialog.config.components import name_and_arguments
from dialog.config.schema import Recipe
from dialog.report.measures import hardware


class EvaluatedSystem(NamedTuple):
    """A recipe and the results of its runs."""

    recipe: Recipe
    environment: dict[str, Any]  # of the first run
    model: dict[str, Any]  # its entry under "models" in results.json


def parity(systems: Sequence[EvaluatedSystem]) -> list[dict[str, Any]]:
    """Return the rows of "parity" in results.json."""
    recipes = [system.recipe for system in systems]
    models = [recipe.model for recipe in recipes]
    environments = [system.environment for system in systems]
    parameters = [system.model["parameters"] for system in systems]
    runs = [system.model["runs"] for system in systems]
    metrics = [model_runs[0]["metrics"] for model_runs in runs]
    return [
        row("data fingerprint", [environment["data"][:12] for environment in environments], must=True),
        row("tokenizer", [environment["tokenizer"][:12] for environment in environments], must=True),
        row("test set", [values["fingerprint"][:12] for values in metrics], must=True),
        row("test examples", [values["examples"] for values in metrics], must=True),
        row("seeds", [", ".join(str(run["seed"]) for run in model_runs) for model_runs in runs], must=True),
        row("search", [component_text(recipe.generation.search) for recipe in recipes], must=True),
        row("response length", [response_length(recipe) for recipe in recipes], must=True),
        row("batch tokens", [recipe.data.batch_tokens for recipe in recipes]),
        row("loss", [component_text(model.loss) for model in models]),
        row("teacher forcing", [component_text(model.teacher_forcing) for model in models]),
        row("auxiliary objectives", [", ".join(map(component_text, model.objectives)) or "none" for model in models]),
        row("dropout", [model.dropout for model in models]),
        row("head", [component_text(model.head) for model in models]),
        row("tied embeddings", [model.tie_embeddings for model in models]),
        row("optimizer", [component_text(recipe.optimizer) for recipe in recipes]),
        row("gradient clipping", [str(recipe.trainer.gradient_clip_val) for recipe in recipes]),
        row("accumulated batches", [recipe.trainer.accumulate_grad_batches for recipe in recipes]),
        row("precision", [recipe.trainer.precision for recipe in recipes]),
        row("early stopping patience", [str(recipe.checkpoint.patience) for recipe in recipes]),
        row("parameters", [counts["total"] for counts in parameters]),
        row("parameters without embeddings", [counts["rest"] for counts in parameters]),
        row("target tokens seen", [rounded_mean(model_runs, "target_tokens") for model_runs in runs]),
        row("optimizer steps", [rounded_mean(model_runs, "steps") for model_runs in runs]),
        row("training seconds", [rounded_mean(model_runs, "seconds") for model_runs in runs]),
        row("hardware", [hardware(environment) for environment in environments]),
    ]


def row(setting: str, values: list[Any], *, must: bool = False) -> dict[str, Any]:
    """Compare one setting, a value per system; `must`: a fair comparison needs equal values."""
    return {"what": setting, "equal": all(value == values[0] for value in values), "must": must, "values": values}


def component_text(component: dict[str, Any]) -> str:
    """Return a component as ``name (argument value, ...)``."""
    name, arguments = name_and_arguments(component)
    values = {key: component_text(value) if isinstance(value, dict) else value for key, value in arguments.items()}
    return f"{name} ({', '.join(f'{key} {value}' for key, value in values.items())})" if values else name


def response_length(recipe: Recipe) -> str:
    """Return the limits of the length of a response."""
    return f"{recipe.generation.min_length} to {recipe.generation.max_length} tokens"


def rounded_mean(runs: Sequence[dict[str, Any]], key: str) -> int:
    """Return the mean of a cost over seeds."""
    return round(sum(int(run[key]) for run in runs) / len(runs))
