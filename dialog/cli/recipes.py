"""``dialog recipes``, and its subcommands verify and copy."""

from __future__ import annotations

from typing import Any

import click

from dialog.config.components import name_and_arguments
from dialog.config.compose import Composed, compose, shipped_recipes
from dialog.escaping import to_json


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.pass_context
def recipes(context: click.Context, as_json: bool) -> None:
    """List the shipped recipes: corpus, model, parameters, cost, expected and measured result.

    A measured result comes from recorded runs and is given with its number of seeds; one of an earlier version of the
    recipe or of the package is marked.

    Example: dialog-seq2seq recipes
    """
    if context.invoked_subcommand is not None:
        return
    rows = [describe(compose(name)) for name in shipped_recipes()]
    click.echo(to_json(rows, indent=1) if as_json else "\n".join(table(rows)))


def describe(composed: Composed) -> dict[str, Any]:
    """Return the row of a recipe."""
    from dialog.recipes.measured import measured_figures

    recipe = composed.recipe
    figures = measured_figures(composed)
    return {
        "name": composed.name,
        "summary": recipe.about.summary,
        "corpus": name_and_arguments(recipe.data.corpus)[0],
        "encoder": name_and_arguments(recipe.model.encoder)[0],
        "decoder": name_and_arguments(recipe.model.decoder)[0],
        "parameters": recipe.about.parameters,
        "cost": recipe.about.cost,
        "expect": recipe.expect,
        "measured": "; ".join(figure.text() for figure in figures) or recipe.about.measured,
        "results": [figure._asdict() for figure in figures],
    }


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return two aligned lines for each recipe: what it is, and its expected and measured results."""
    heads = [
        (
            row["name"],
            row["corpus"],
            f"{row['encoder']} -> {row['decoder']}",
            f"{row['parameters'] / 1e6:.1f} M parameters" if row["parameters"] else "",
            row["cost"],
        )
        for row in rows
    ]
    widths = [max(len(head[column]) for head in heads) for column in range(len(heads[0]))]
    lines = []
    for row, head in zip(rows, heads, strict=True):
        lines.append("  ".join(f"{text:<{width}}" for text, width in zip(head, widths, strict=True)).rstrip())
        expected = "; ".join(f"{item['metric']} {item['value']} ± {item['tolerance']}" for item in row["expect"])
        lines.append(f"{'':<{widths[0]}}  expected: {expected or '-'}; measured: {row['measured'] or '-'}")
    return lines
