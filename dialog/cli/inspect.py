"""``dialog inspect``."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dialog.cli.output_file import check_new_file, writable
from dialog.config.compose import compose
from dialog.config.schema import Recipe
from dialog.errors import UserError
from dialog.escaping import to_json

if TYPE_CHECKING:
    from dialog.data.examples import Rules
    from dialog.inspection.findings import Section

WIDEST = 110


@click.command()
@click.argument("recipe")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--html", type=click.Path(path_type=Path), metavar="FILE", help="Write a page that needs no other file.")
@click.option("--tokens/--no-tokens", default=True, help="Also what the tokenizer makes of it, learnt if need be.")
@click.option(
    "--json", "as_json", is_flag=True, help="All figures as JSON, with the ids of clean and leaked dialogues."
)
def inspect(recipe: str, overrides: tuple[str, ...], html: Path | None, tokens: bool, as_json: bool) -> None:
    """Look through the corpus of a RECIPE for what harms a model or a measurement, and say what to do about it.

    Leaks between the splits, exact and near repeats, generic replies, lengths and what truncation cuts, speakers,
    characters, languages, unknown tokens, reserved strings, malformed records. What is looked through is what data.* of
    the recipe make of the corpus, without data.filters.

    Example: dialog-seq2seq inspect dailydialog/transformer data.path=DIR --html inspection.html
    """
    composed = compose(recipe, overrides)
    if html is not None:
        check_new_file(html, "--html")
    from dialog.build import build_corpus, build_rules
    from dialog.inspection.html import write_html
    from dialog.inspection.inspect import inspect as look
    from dialog.inspection.text import to_text
    from dialog.runs.check import check_data

    check_data(composed.recipe)
    rules, corpus = build_rules(composed.recipe), build_corpus(composed.recipe)
    found = look(corpus, _tokens(composed.recipe, rules) if tokens else None, rules=rules)
    title = f"{composed.recipe.data.corpus['name']} ({composed.name})"
    if as_json:
        text = to_json({"recipe": composed.name, "corpus": dict(composed.recipe.data.corpus), **found.data()}) + "\n"
    else:
        text = to_text(found, title, min(WIDEST, shutil.get_terminal_size((100, 24)).columns))
    try:
        click.echo(text, nl=False)
    finally:  # whichever of the two cannot be written, the other is there
        if html is not None:
            command = shlex.join(["dialog-seq2seq", "inspect", recipe, *overrides])
            with writable(html, "--html"):
                write_html(found, html, title=title, command=command)
            click.echo(f"page: {html}", err=True)


def _tokens(recipe: Recipe, rules: Rules) -> Section:
    """The section of the tokenizer, or why there is none; what is malformed the doctor counts and goes on."""
    from dialog.data.examples import DROP
    from dialog.data.store.manifest import TOKENIZER
    from dialog.data.tokenizers.tokenizer import Tokenizer
    from dialog.inspection.sections.tokens import TokenSection, UncountedTokenSection
    from dialog.runs.prepare import prepare_data

    data = recipe.data
    for malformed in dict.fromkeys((data.malformed, DROP)):  # training shares what the first gives
        try:
            prepared = replace(data, malformed=malformed, max_dropped=1.0)
            folder = prepare_data(replace(recipe, data=prepared), quiet=False)
        except UserError as error:
            why = str(error)
        else:
            tokenizer = Tokenizer.load(folder / TOKENIZER)
            return TokenSection(tokenizer, rules, max_source=data.max_source, max_target=data.max_target)
    return UncountedTokenSection(why)
