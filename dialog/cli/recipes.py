"""``dialog recipes``, and its subcommands verify and copy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from dialog.cli import completion
from dialog.config.compose import find_recipe, shipped_recipes, split_overrides
from dialog.errors import RunError, UserError
from dialog.escaping import one_line, to_json
from dialog.recipes.summaries import summaries


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.pass_context
def recipes(context: click.Context, as_json: bool) -> None:
    """List the shipped recipes: corpus, model, parameters, cost and result.

    A result with seeds, date and commit was measured by this project; one without is the published
    one that the recipe follows.

    \b
    Example: python -m dialog recipes
    Copy and change one:    python -m dialog recipes copy quickstart/transformer mine
    Reproduce its results:  python -m dialog recipes verify quickstart/transformer --full
    """  # noqa: D301 - click marks unwrapped text with a backspace
    if context.invoked_subcommand is not None:
        return
    rows = summaries()
    click.echo(to_json(rows, indent=1) if as_json else "\n".join(table(rows)))


def table(rows: list[dict[str, Any]]) -> list[str]:
    """Return the lines of each recipe: aligned columns, then its results."""
    from dialog.report.formats.numbers import magnitude

    heads = [
        (
            row["name"],
            row["corpus"],
            f"{row['encoder']} -> {row['decoder']}",
            f"{magnitude(row['parameters'])} parameters" if row["parameters"] else "",
            row["cost"],
        )
        for row in rows
    ]
    lines = []
    for row, head in zip(rows, aligned(heads), strict=True):
        lines += [head, *(f"    {item['metric']} {expected_text(item)}" for item in row["expect"])]
    return lines


def expected_text(item: dict[str, Any]) -> str:
    """Return an expected metric: value and tolerance, and where the value comes from."""
    from dialog.report.formats.metrics import metric_display
    from dialog.report.tables import spread_text

    value = spread_text(item["value"], item["tolerance"], metric_display(item["metric"]).format)
    if "seeds" not in item:
        return f"{value} (published)"
    return (
        f"{value} ({item['seeds']} seed{'s' * (item['seeds'] > 1)}, {item['date']}, at"
        f" {commits_text(item)})"
    )


def commits_text(item: dict[str, Any]) -> str:
    """Return the commit, or the commits, at which an expected metric was measured."""
    commit = item["commit"]
    return ", ".join(commit) if isinstance(commit, list) else commit


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of text as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


@recipes.command(short_help="Copy a recipe into a new folder.")
@click.argument("name", shell_complete=completion.recipes)
@click.argument("destination", type=click.Path(path_type=Path), metavar="DEST")
def copy(name: str, destination: Path) -> None:
    """Copy the recipe NAME, with all groups that it composes, into a new folder DEST; print the
    path of the copy.

    Example: python -m dialog recipes copy dailydialog/lstm_bahdanau mine
    """
    from dialog.recipes.copy import copy_recipe

    click.echo(str(copy_recipe(name, destination)))


@recipes.command(short_help="Train recipes and compare their metrics with the expected ones.")
@click.argument(
    "names",
    nargs=-1,
    metavar="[NAME]... [KEY=VALUE]...",
    shell_complete=completion.recipes_and_settings,
)
@click.option(
    "--full",
    is_flag=True,
    help="Train to the end, and compare the metrics with the expected values.",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def verify(names: tuple[str, ...], full: bool, as_json: bool) -> None:
    """Train recipes (default: all) and compare their metrics on the test split with the values that
    they expect.

    Without --full, a recipe is trained for a few steps only (its smoke overrides). This checks that
    the expected metrics can be computed; their values are not compared. If a recipe fails, the
    others are still verified.

    Exit codes: 0 if all checks passed, 2 if the only errors are ones that you can fix, such as a
    missing corpus, else 1.

    Example: python -m dialog recipes verify quickstart/lstm_bahdanau quickstart/transformer --full
    """
    from dialog.recipes.verify import verify_recipes

    listed, overrides = split_overrides(names)
    for name in listed:
        find_recipe(name)
    outcomes = []
    for rows in verify_recipes(listed or list(shipped_recipes()), overrides, full=full):
        outcomes += rows
        for row in rows:
            click.echo(
                one_line(": ".join(filter(None, [row.recipe, row.metric, row.state, row.message]))),
                err=True,
            )
    head = ("recipe", "metric", "expected", "measured", "outcome")
    table = "\n".join(aligned([head, *(row.cells() for row in outcomes)]))
    click.echo(to_json([row._asdict() for row in outcomes], indent=1) if as_json else table)
    if failed := [row for row in outcomes if row.code]:
        kind = UserError if all(row.code == 2 for row in failed) else RunError
        names_failed = ", ".join(dict.fromkeys(row.recipe for row in failed))
        raise kind(f"{len(failed)} of {len(outcomes)} checks failed: {names_failed}")
