"""``dialog inspect``."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dialog.cli.completion import recipes, settings
from dialog.cli.options import check_new_file, trust_option, writable
from dialog.config.compose import compose
from dialog.config.schema import Recipe
from dialog.config.trust import Trust
from dialog.data.dialogue import SPLITS
from dialog.errors import UserError
from dialog.escaping import to_json

if TYPE_CHECKING:
    from dialog.data.corpora import Corpus
    from dialog.data.examples import ExampleRules
    from dialog.inspection.findings import Section

WIDEST = 110


@click.command()
@click.argument("recipe", shell_complete=recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=settings)
@click.option(
    "--html",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also write a self-contained web page.",
)
@click.option(
    "--tokens/--no-tokens",
    default=True,
    help="Include tokenizer statistics; trains the tokenizer if needed.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print all figures as JSON, with the ids of clean and leaked dialogues.",
)
@trust_option
def inspect(
    recipe: str,
    overrides: tuple[str, ...],
    html: Path | None,
    tokens: bool,
    as_json: bool,
    trust: Trust,
) -> None:
    """Check the corpus of a RECIPE for problems that harm training or evaluation, and suggest
    remedies.

    Reports leaks between splits, exact and near duplicates, generic responses, lengths and
    truncation, speakers, characters, languages, unknown tokens, reserved strings and malformed
    records. The recipe's data settings apply, except data.filters.

    Example: python -m dialog inspect dailydialog/transformer data.path=DIR --html inspection.html
    """
    composed = compose(recipe, overrides, trust=trust)
    if html is not None:
        check_new_file(html, "--html")
    from dialog.build import build_corpus, build_rules
    from dialog.inspection.inspect import inspect as run_inspection
    from dialog.inspection.output import to_text, write_html
    from dialog.runs.check import check_data

    check_data(composed.recipe)
    rules = build_rules(composed.recipe)
    corpus = build_corpus(composed.recipe)
    _read_first_records(corpus)
    report = run_inspection(
        corpus, _token_section(composed.recipe, rules) if tokens else None, rules=rules
    )
    title = f"{composed.recipe.data.corpus['name']} ({composed.name})"
    if as_json:
        text = (
            to_json(
                {
                    "recipe": composed.name,
                    "corpus": dict(composed.recipe.data.corpus),
                    **report.data(),
                }
            )
            + "\n"
        )
    else:
        text = to_text(report, title, min(WIDEST, shutil.get_terminal_size((100, 24)).columns))
    try:
        click.echo(text, nl=False)
    finally:  # write the page even if standard output fails
        if html is not None:
            command = shlex.join(["python", "-m", "dialog", "inspect", recipe, *overrides])
            with writable(html, "--html"):
                write_html(report, html, title=title, command=command)
            click.echo(f"page: {html}", err=True)


def _read_first_records(corpus: Corpus) -> None:
    """Raise the UserError of a file that cannot be read, such as one without a column, before any
    progress is shown.
    """
    for split in SPLITS:
        next(iter(corpus.dialogues(split)), None)


def _token_section(recipe: Recipe, rules: ExampleRules) -> Section:
    """Return the section on tokens; malformed records are dropped rather than stopping the
    inspection.
    """
    from dialog.data.examples import DROP
    from dialog.data.store.manifest import TOKENIZER
    from dialog.data.tokenizers.tokenizer import Tokenizer
    from dialog.inspection.sections.tokens import TokenSection, UncountedTokenSection
    from dialog.runs.prepare import prepare_data

    data = recipe.data
    # the first may be prepared for training already
    for malformed in dict.fromkeys((data.malformed, DROP)):
        try:
            prepared = replace(data, malformed=malformed, max_dropped=1.0)
            folder = prepare_data(replace(recipe, data=prepared), quiet=False)
        except UserError as error:
            reason = str(error)
        else:
            tokenizer = Tokenizer.load(folder / TOKENIZER)
            limits = {"max_source": data.max_source, "max_target": data.max_target}
            return TokenSection(tokenizer, rules, **limits, layout=data.layout)
    return UncountedTokenSection(reason)
