"""``dialog prepare``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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

    composed = compose(recipe, overrides).recipe
    folder = prepare_data(composed, lambda line: click.echo(line, err=True))
    manifest = read_manifest(folder)
    batches = planned(folder, manifest["splits"], composed.data.batch_tokens)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "batches": batches, **manifest}, indent=1))
        return
    click.echo(str(folder))
    click.echo(f"vocabulary: {manifest['vocabulary']:,}")
    for split, counts in manifest["splits"].items():
        click.echo(f"{split}: " + ", ".join(f"{key} {value:,}" for key, value in counts.items()))
        number, share = batches[split]["number"], batches[split]["padding"]
        click.echo(f"{split}: {number:,} batches of {composed.data.batch_tokens:,} tokens, padding {share:.1%} at most")


def planned(folder: Path, splits: dict[str, dict[str, int]], batch_tokens: int) -> dict[str, dict[str, Any]]:
    """How many batches each split is, and the most of their tokens that is padding."""
    from dialog.data.lengths import read_classes
    from dialog.data.plan import Plan

    found = {}
    for split, counts in splits.items():
        plan = Plan(read_classes(folder, split), budget=batch_tokens)
        real = counts["source tokens"] + counts["target tokens"]
        found[split] = {"number": len(plan), "padding": 1 - real / plan.padded}
    return found
