"""What must be equal for a comparison to be fair, and what a reader has to know where it is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dialog.config.components import name_and_arguments
from dialog.config.schema import Recipe
from dialog.report.measures import hardware


class Contender(NamedTuple):
    """A recipe with what is known of its runs."""

    recipe: Recipe
    environment: dict[str, Any]  # of the first run
    model: dict[str, Any]  # its entry in results.json


def parity(contenders: Sequence[Contender]) -> list[dict[str, Any]]:
    """Rows of results.json: what was looked at, whether it is equal, and whether it must be."""
    runs = [each.model["runs"] for each in contenders]
    rows = [
        row("data fingerprint", [each.environment["data"][:12] for each in contenders], must=True),
        row("tokenizer", [each.environment["tokenizer"][:12] for each in contenders], must=True),
        row("test set", [each[0]["metrics"]["fingerprint"][:12] for each in runs], must=True),
        row("test examples", [each[0]["metrics"]["examples"] for each in runs], must=True),
        row("seeds", [", ".join(str(run["seed"]) for run in each) for each in runs], must=True),
        row("search", [show(each.recipe.generation.search) for each in contenders], must=True),
        row("response length", [lengths(each.recipe) for each in contenders], must=True),
        row("batch tokens", [each.recipe.data.batch_tokens for each in contenders]),
        row("loss", [show(each.recipe.model.loss) for each in contenders]),
        row("teacher forcing", [show(each.recipe.model.teacher_forcing) for each in contenders]),
        row(
            "auxiliary objectives",
            [", ".join(map(show, each.recipe.model.objectives)) or "none" for each in contenders],
        ),
        row("dropout", [each.recipe.model.dropout for each in contenders]),
        row("head", [show(each.recipe.model.head) for each in contenders]),
        row("tied embeddings", [each.recipe.model.tie_embeddings for each in contenders]),
        row("optimizer", [show(each.recipe.optimizer) for each in contenders]),
        row("gradient clipping", [str(each.recipe.trainer.gradient_clip_val) for each in contenders]),
        row("accumulated batches", [each.recipe.trainer.accumulate_grad_batches for each in contenders]),
        row("precision", [each.recipe.trainer.precision for each in contenders]),
        row("early stopping patience", [str(each.recipe.checkpoint.patience) for each in contenders]),
        row("parameters", [each.model["parameters"]["total"] for each in contenders]),
        row("parameters without embeddings", [each.model["parameters"]["rest"] for each in contenders]),
        row("target tokens seen", [mean_of(each, "target_tokens") for each in runs]),
        row("optimizer steps", [mean_of(each, "steps") for each in runs]),
        row("training seconds", [mean_of(each, "seconds") for each in runs]),
        row("hardware", [hardware(each.environment) for each in contenders]),
    ]
    return rows


def row(what: str, values: list[Any], *, must: bool = False) -> dict[str, Any]:
    """One line of the contract."""
    return {"what": what, "equal": all(value == values[0] for value in values), "must": must, "values": values}


def show(component: dict[str, Any]) -> str:
    """A component in one line."""
    name, arguments = name_and_arguments(component)
    inner = ", ".join(f"{key} {show(value) if isinstance(value, dict) else value}" for key, value in arguments.items())
    return f"{name} ({inner})" if inner else name


def lengths(recipe: Recipe) -> str:
    """How short and how long a response may be."""
    return f"{recipe.generation.min_length} to {recipe.generation.max_length} tokens"


def mean_of(runs: Sequence[dict[str, Any]], key: str) -> int:
    """The mean over seeds, rounded."""
    return round(sum(int(run[key]) for run in runs) / len(runs))
