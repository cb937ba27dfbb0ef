"""``dialog parts``."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any

import click

from dialog.config.components import lookup

RUNTIME = {
    "corpora": {"member", "path"},
    "tokenizers": {"texts"},
    "encoders": {"input_size", "dropout"},
    "decoders": {"input_size", "memory_size", "dropout"},
    "attentions": {"query_size", "key_size"},
    "bridges": {"memory_size", "size", "layers"},
    "heads": {"vocabulary", "size", "tied"},
    "positions": {"size", "heads"},
    "losses": {"padding"},
    "objectives": {"tokenizer"},
    "optimizers": {"params"},
    "schedules": {"optimizer", "training_steps"},
    "searches": {"end", "banned", "min_length", "max_length"},
    "metrics": {"responses", "references"},
    "loggers": {"folder"},
}
"""What other parts of a recipe set, by family."""


@click.command()
@click.argument("family", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def parts(family: str | None, as_json: bool) -> None:
    """List the components that a recipe can name, with their arguments and defaults; of one FAMILY, or all.

    Example: dialog-seq2seq parts attentions
    """
    families = tables()
    chosen = {family: lookup(families, family)} if family else families
    found = {
        name: {part: arguments(factory, RUNTIME.get(name, set())) for part, factory in table.items()}
        for name, table in chosen.items()
    }
    if as_json:
        click.echo(json.dumps(found, indent=1, default=str))
        return
    for name, table in chosen.items():
        click.echo(f"{name}")
        for part, factory in table.items():
            given = found[name][part].items()
            shown = ", ".join(f"{key}={value}" if value != "required" else key for key, value in given)
            click.echo(f"  {part}({shown})")
            click.echo(f"      {(inspect.getdoc(getattr(factory, 'func', factory)) or '').partition(chr(10))[0]}")


def tables() -> dict[str, Mapping[str, Callable[..., Any]]]:
    """Every table by the name of its family."""
    from dialog.data.corpora import CORPORA
    from dialog.data.filters import FILTERS
    from dialog.data.tokenizers import TOKENIZERS
    from dialog.generation.greedy import SEARCHES
    from dialog.metrics import METRICS
    from dialog.models.attention.attention import ATTENTIONS
    from dialog.models.heads import HEADS
    from dialog.models.positions import POSITIONS
    from dialog.models.recurrent import BRIDGES
    from dialog.models.seq2seq import DECODERS, ENCODERS
    from dialog.training.callbacks.averaging import AVERAGES
    from dialog.training.loggers import LOGGERS
    from dialog.training.losses import LOSSES
    from dialog.training.objectives.objectives import OBJECTIVES
    from dialog.training.optimization.optimizers import OPTIMIZERS
    from dialog.training.optimization.schedules import SCHEDULES
    from dialog.training.teacher_forcing import TEACHER_FORCINGS

    return {
        "corpora": CORPORA,
        "filters": FILTERS,
        "tokenizers": TOKENIZERS,
        "encoders": ENCODERS,
        "decoders": DECODERS,
        "attentions": ATTENTIONS,
        "bridges": BRIDGES,
        "heads": HEADS,
        "positions": POSITIONS,
        "losses": LOSSES,
        "teacher_forcings": TEACHER_FORCINGS,
        "objectives": OBJECTIVES,
        "optimizers": OPTIMIZERS,
        "schedules": SCHEDULES,
        "averages": AVERAGES,
        "searches": SEARCHES,
        "metrics": METRICS,
        "loggers": LOGGERS,
    }


def arguments(factory: Callable[..., Any], runtime: set[str]) -> dict[str, Any]:
    """The arguments that a recipe may set, with their defaults."""
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {
        key: "required" if parameter.default is parameter.empty else parameter.default
        for key, parameter in inspect.signature(factory).parameters.items()
        if key not in runtime and parameter.kind in named
    }
