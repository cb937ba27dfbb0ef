"""``dialog prepare``."""

from __future__ import annotations

import json

import click

from dialog.errors import UserError
from dialog.recipe import compose


class Share(click.ParamType[tuple[int, int]]):
    """``I/N``: number I of N, from 0 on."""

    name = "I/N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        """Both numbers."""
        index, slash, count = str(value).partition("/")
        if not (slash and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
            self.fail(f"{value} is not of the form I/N, with I from 0 to N - 1", param, ctx)
        return int(index), int(count)


@click.command()
@click.argument("recipe")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True, help="Processes that share the work.")
@click.option("--engine", type=click.Choice(["processes", "ray"]), default="processes", help="What runs the workers.")
@click.option("--shard", type=Share(), help="Do part I of N, from 0 on, for example in a SLURM array.")
@click.option("--merge", "merges", is_flag=True, help="Join the parts that --shard has made.")
@click.option("--json", "as_json", is_flag=True, help="The manifest as JSON.")
def prepare(
    recipe: str,
    overrides: tuple[str, ...],
    workers: int,
    engine: str,
    shard: tuple[int, int] | None,
    merges: bool,
    as_json: bool,
) -> None:
    """Turn the raw corpus of a RECIPE into a tokenizer and a token store, and say what was kept and dropped.

    However the work is shared, the result is the same to the byte.

    Example: dialog-seq2seq prepare dailydialog/transformer data.path=DIR
    """
    from dialog.assemble import prepare_data, prepare_part
    from dialog.data.manifest import read_manifest
    from dialog.report.terminal import one_line

    if shard and merges:
        raise UserError("--shard makes a part, --merge joins the parts; give one of them")
    composed = compose(recipe, overrides).recipe
    if shard:
        click.echo(str(prepare_part(composed, *shard)))
        return
    folder = prepare_data(composed, quiet=False, engine=engine, workers=workers, merges=merges)
    manifest = read_manifest(folder)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), **manifest}, indent=1))
        return
    click.echo(str(folder))
    click.echo(f"vocabulary: {manifest['vocabulary']:,}")
    for split, counts in manifest["splits"].items():
        click.echo(f"{split}:")
        width = max(len(f"{value:,}") for value in counts.values())
        for key, value in counts.items():
            click.echo(f"  {value:>{width},}  {key}")
        for remark in manifest["remarks"][split]:
            click.echo(f"  {one_line(remark)}")
