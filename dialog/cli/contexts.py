"""``dialog contexts``."""

from __future__ import annotations

from itertools import chain, groupby, islice
from operator import itemgetter
from pathlib import Path

import click

from dialog.cli.completion import recipes, settings
from dialog.cli.json_lines import new_file
from dialog.cli.options import check_new_file
from dialog.config.compose import compose
from dialog.config.trust import FULL_TRUST
from dialog.escaping import to_json


@click.command()
@click.argument("recipe", shell_complete=recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=settings)
@click.option(
    "--split",
    type=click.Choice(["train", "validation", "test"]),
    default="test",
    show_default=True,
    help="Split of the corpus.",
)
@click.option("--dialogues", type=click.IntRange(1), help="First N dialogues only.", metavar="N")
@click.option(
    "--output", "target", default="-", help="New file for the contexts; - is standard output."
)
def contexts(
    recipe: str, overrides: tuple[str, ...], split: str, dialogues: int | None, target: str
) -> None:
    """Print the examples of a RECIPE's corpus as JSON lines, for systems of other frameworks.

    Each line is {"id", "dialogue_id", "context": [TEXT, ...], "references": [TEXT]}. A system
    answers with lines {"id", "response"}, which compare reads. The context has at most
    data.context_turns turns, and may be empty.

    Example: python -m dialog contexts quickstart/transformer --output test.jsonl
    """
    from dialog.comparison.grid.test_set import examples_of, system_input
    from dialog.runs.check import check_data

    if target != "-":
        check_new_file(Path(target), "--output")
    composed = compose(recipe, overrides, trust=FULL_TRUST).recipe
    check_data(composed)
    with new_file(target) as out:
        groups = groupby(examples_of(composed, split), key=itemgetter("dialogue_id"))
        for row in chain.from_iterable(rows for _, rows in islice(groups, dialogues)):
            out.write(to_json(system_input(row)) + "\n")
