"""``dialog prepare``."""

from __future__ import annotations

import json

import click

from dialog.recipe import compose


@click.command()
@click.argument("recipe")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--json", "as_json", is_flag=True, help="The manifest as JSON.")
def prepare(recipe: str, overrides: tuple[str, ...], as_json: bool) -> None:
    """Turn the raw corpus of a RECIPE into a tokenizer and a token store, and say what was kept and dropped.

    Example: dialog-seq2seq prepare dailydialog/transformer data.path=DIR
    """
    from dialog.assemble import prepare_data
    from dialog.data.manifest import read_manifest

    folder = prepare_data(compose(recipe, overrides).recipe, lambda line: click.echo(line, err=True))
    manifest = read_manifest(folder)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), **manifest}, indent=1))
        return
    click.echo(str(folder))
    click.echo(f"vocabulary: {manifest['vocabulary']:,}")
    for split, counts in manifest["splits"].items():
        click.echo(f"{split}: " + ", ".join(f"{key} {value:,}" for key, value in counts.items()))
