"""``dialog recipes``."""

from __future__ import annotations

import json
from typing import Any

import click

from dialog.config.components import name_and_arguments
from dialog.config.compose import Composed, compose, shipped_recipes


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def recipes(as_json: bool) -> None:
    """List the shipped recipes: corpus, model, parameters, cost, expected and measured result.

    Example: dialog-seq2seq recipes
    """
    rows = [describe(compose(name)) for name in shipped_recipes()]
    if as_json:
        click.echo(json.dumps(rows, indent=1))
        return
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        size = f"{row['parameters'] / 1e6:.1f} M parameters" if row["parameters"] else ""
        parts = (row["corpus"], f"{row['encoder']} -> {row['decoder']}", size, row["cost"])
        click.echo(f"{row['name']:<{width}}  {', '.join(filter(None, parts))}")
        expected = "; ".join(f"{item['metric']} {item['value']} ± {item['tolerance']}" for item in row["expect"])
        click.echo(f"{'':<{width}}  expected: {expected or '-'}; measured: {row['measured'] or '-'}")


def describe(composed: Composed) -> dict[str, Any]:
    """Return the row of a recipe."""
    recipe = composed.recipe
    return {
        "name": composed.name,
        "summary": recipe.about.summary,
        "corpus": name_and_arguments(recipe.data.corpus)[0],
        "encoder": name_and_arguments(recipe.model.encoder)[0],
        "decoder": name_and_arguments(recipe.model.decoder)[0],
        "parameters": recipe.about.parameters,
        "cost": recipe.about.cost,
        "expect": recipe.expect,
        "measured": recipe.about.measured,
    }
