"""``dialog parts``."""

from __future__ import annotations

import importlib
import inspect
import json
import textwrap
from collections.abc import Callable
from typing import Any

import click

from dialog.config.components import Family, lookup, settings_class

FAMILIES = {
    "corpora": "data.corpora:CORPORA",
    "filters": "data.filters:FILTERS",
    "tokenizers": "data.tokenizers:TOKENIZERS",
    "encoders": "models.seq2seq:ENCODERS",
    "decoders": "models.seq2seq:DECODERS",
    "mixers": "models.recurrence:MIXERS",
    "attentions": "models.attention.attention:ATTENTIONS",
    "bridges": "models.recurrent:BRIDGES",
    "heads": "models.heads:HEADS",
    "positions": "models.positions:POSITIONS",
    "losses": "training.losses:LOSSES",
    "teacher_forcings": "training.teacher_forcing:TEACHER_FORCINGS",
    "objectives": "training.objectives:OBJECTIVES",
    "optimizers": "training.optimization.optimizers:OPTIMIZERS",
    "schedules": "training.optimization.schedules:SCHEDULES",
    "averages": "training.callbacks.averaging:AVERAGES",
    "searches": "generation.searches.family:SEARCHES",
    "metrics": "metrics:METRICS",
    "loggers": "training.loggers:LOGGERS",
}
"""Module below `dialog` and name of each family, by its plural name."""


@click.command()
@click.argument("family", required=False)
@click.argument("part", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def parts(family: str | None, part: str | None, as_json: bool) -> None:
    """List the components that a recipe can name, of one FAMILY or all, with their arguments and
    defaults.

    With a PART, such as corpora csv, print its whole description.

    Example: python -m dialog parts attentions
    """
    if family:
        lookup(FAMILIES, family, "family")
    chosen = {name: family_of(name) for name in ([family] if family else FAMILIES)}
    if part and family:
        lookup(chosen[family], part, chosen[family].kind)
    listing = {
        name: {member: arguments(members, member) for member in ([part] if part else members)}
        for name, members in chosen.items()
    }
    if as_json:
        click.echo(json.dumps(listing, indent=1, default=str))
        return
    for name, members in listing.items():
        click.echo(f"{name}")
        for member, defaults in members.items():
            signature = ", ".join(
                f"{key}={value}" if value != "required" else key for key, value in defaults.items()
            )
            click.echo(f"  {member}({signature})")
            text = description(chosen[name][member])
            click.echo(textwrap.indent(text if part else text.partition("\n")[0], " " * 6))


def description(constructor: Callable[..., Any]) -> str:
    """Return the docstring of a part, and of its settings."""
    settings = settings_class(constructor)
    texts = (
        inspect.getdoc(source)
        for source in (getattr(constructor, "func", constructor), settings)
        if source
    )
    return "\n\n".join(text for text in texts if text)


def arguments(family: Family[Any], part: str) -> dict[str, Any]:
    """Map each argument of a part that a recipe may set to its default, or to "required"."""
    return {
        key: "required" if parameter.default is parameter.empty else parameter.default
        for key, parameter in family.arguments(part).items()
    }


def family_of(name: str) -> Family[Any]:
    """Import a family by its plural name, and nothing that only other families need."""
    module, _, attribute = FAMILIES[name].partition(":")
    family: Family[Any] = getattr(importlib.import_module(f"dialog.{module}"), attribute)
    return family
