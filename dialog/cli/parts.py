"""``dialog parts``."""

from __future__ import annotations

import inspect
import json
from typing import Any

import click

from dialog.config.components import Family, lookup


@click.command()
@click.argument("family", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def parts(family: str | None, as_json: bool) -> None:
    """List the components that a recipe can name, of one FAMILY or all, with their arguments and defaults.

    Example: dialog-seq2seq parts attentions
    """
    families = tables()
    chosen = {family: lookup(families, family, "family")} if family else families
    listing = {name: {part: arguments(members, part) for part in members} for name, members in chosen.items()}
    if as_json:
        click.echo(json.dumps(listing, indent=1, default=str))
        return
    for name, members in chosen.items():
        click.echo(f"{name}")
        for part, constructor in members.items():
            items = listing[name][part].items()
            signature = ", ".join(f"{key}={value}" if value != "required" else key for key, value in items)
            click.echo(f"  {part}({signature})")
            summary = (inspect.getdoc(getattr(constructor, "func", constructor)) or "").partition("\n")[0]
            click.echo(f"      {summary}")


def arguments(family: Family[Any], part: str) -> dict[str, Any]:
    """Map each argument of a part that a recipe may set to its default, or to "required"."""
    return {
        key: "required" if parameter.default is parameter.empty else parameter.default
        for key, parameter in family.arguments(part).items()
    }


def tables() -> dict[str, Family[Any]]:
    """Map the plural name of every family to the family."""
    from dialog.data.corpora import CORPORA
    from dialog.data.filters import FILTERS
    from dialog.data.tokenizers import TOKENIZERS
    from dialog.generation.searches.family import SEARCHES
    from dialog.metrics import METRICS
    from dialog.models.attention.attention import ATTENTIONS
    from dialog.models.heads import HEADS
    from dialog.models.positions import POSITIONS
    from dialog.models.recurrent import BRIDGES
    from dialog.models.seq2seq import DECODERS, ENCODERS
    from dialog.training.callbacks.averaging import AVERAGES
    from dialog.training.loggers import LOGGERS
    from dialog.training.losses import LOSSES
    from dialog.training.objectives.joint import OBJECTIVES
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
