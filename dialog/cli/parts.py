"""``dialog parts``."""

from __future__ import annotations

import inspect
import json
from typing import Any

import click

from dialog.config.components import Family, lookup


@click.command()
@click.argument("family", required=False)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
def parts(family: str | None, as_json: bool) -> None:
    """List the components that a recipe can name, with their arguments and defaults; of one FAMILY, or all.

    Example: dialog-seq2seq parts attentions
    """
    families = tables()
    chosen = {family: lookup(families, family, "family")} if family else families
    found = {
        name: {
            part: {
                key: "required" if each.default is each.empty else each.default
                for key, each in table.arguments(part).items()
            }
            for part in table
        }
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


def tables() -> dict[str, Family[Any]]:
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
