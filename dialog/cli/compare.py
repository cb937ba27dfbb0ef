"""``dialog compare``."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from dialog.config.compose import split_overrides
from dialog.escaping import to_json
from dialog.paths import check_new


@click.command()
@click.argument("recipes", nargs=-1, required=True, metavar="RECIPE RECIPE... [KEY=VALUE]...")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Number of seeds per recipe.")
@click.option("--output", type=click.Path(path_type=Path), help="Folder of the comparison [default: comparisons/...].")
@click.option("--trust", is_flag=True, help="Allow recipes of run folders to import code.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table.")
def compare(recipes: tuple[str, ...], seeds: int, output: Path | None, trust: bool, as_json: bool) -> None:
    """Train RECIPES, evaluate them on the test split, and write report.html, report.md and results.json.

    A RECIPE may also be a run folder, which is evaluated as it was trained; overrides apply to recipes only.

    Example: dialog-seq2seq compare quickstart/lstm_bahdanau quickstart/transformer --seeds 3
    """
    if output is not None:
        check_new(output)
    names, overrides = split_overrides(recipes)
    from dialog.comparison.compare import compare as run
    from dialog.comparison.compare import load_systems
    from dialog.report.verdict import terminal_table

    systems = load_systems(names, overrides, trust=trust)
    base = systems[0].composed.recipe.seed
    command = shlex.join(["python", "-m", "dialog", "compare", *recipes, "--seeds", str(seeds)])
    folder, results = run(systems, seeds=range(base, base + seeds), output=output, command=command)
    click.echo(to_json(results) if as_json else terminal_table(results))
    click.echo(f"report: {folder / 'report.html'}", err=as_json)
