"""Settings of a run that several formats write."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from torch import nn

from dialog.config.components import Component, name_and_arguments
from dialog.config.schema import GenerationConfig, Recipe
from dialog.models.seq2seq import Seq2Seq
from dialog.models.transformer import TransformerSettings

SHORTEST_TABLE = 1024
"""Smallest number of rows of a sinusoidal table; CTranslate2 reads at most 1024 tokens of a source
by default.
"""


def search_and_limits(generation: GenerationConfig) -> tuple[Component, dict[str, Any]]:
    """Return the search and the constraints; those inside the search replace those beside it."""
    limits = asdict(generation)
    search: Component = limits.pop("search")
    own = {key: value for key, value in search.items() if key not in limits}
    return own, limits | {key: value for key, value in search.items() if key in limits}


def transformer_settings(model: Seq2Seq, side: str) -> TransformerSettings:
    """Return the settings of the encoder or the decoder, with the defaults of those that the recipe
    leaves out.
    """
    _, arguments = name_and_arguments(model.arguments[side])
    shared = {
        "input_size": model.arguments["embedding_size"],
        "dropout": model.arguments["dropout"],
    }
    return TransformerSettings(**(shared | arguments))


def learned_lengths(part: nn.Module) -> list[int]:
    """Return the number of rows of each learned table of positions."""
    return [
        len(table)
        for name, table in part.named_parameters()
        if name.endswith("positions.table.weight")
    ]


def table_length(recipe: Recipe) -> int:
    """Return the number of rows of a sinusoidal table: for the sources, targets and responses of
    the recipe.
    """
    data = recipe.data
    generation = recipe.generation
    _, limits = search_and_limits(generation)
    # 1: the begin token
    return max(SHORTEST_TABLE, data.max_source, data.max_target, 1 + int(limits["max_length"]))
