"""``dialog prepare``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dialog.cli.completion import recipes, settings
from dialog.config.compose import compose
from dialog.config.trust import FULL_TRUST
from dialog.errors import UserError
from dialog.escaping import one_line

if TYPE_CHECKING:
    from dialog.config.schema import DataConfig


class ShardNumber(click.ParamType[tuple[int, int]]):
    """``I/N``: shard I of N, counted from 0."""

    name = "I/N"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Parse both numbers."""
        index, slash, count = str(value).partition("/")
        if not (slash and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
            self.fail(f"{value} must be I/N, with I from 0 to N - 1", param, ctx)
        return int(index), int(count)


@click.command()
@click.argument("recipe", shell_complete=recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=settings)
@click.option(
    "--workers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Number of worker processes.",
)
@click.option(
    "--engine",
    type=click.Choice(["processes", "ray"]),
    default="processes",
    help="Engine that runs the workers.",
)
@click.option(
    "--shard",
    type=ShardNumber(),
    help="Prepare only shard I of N (from 0), such as in a SLURM array.",
)
@click.option("--merge", "merges", is_flag=True, help="Merge the shards made with --shard.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
def prepare(
    recipe: str,
    overrides: tuple[str, ...],
    workers: int,
    engine: str,
    shard: tuple[int, int] | None,
    merges: bool,
    as_json: bool,
) -> None:
    """Build the tokenizer and the token store of a RECIPE's corpus; report what was kept and
    dropped, and why.

    The result is byte-identical for any number of workers and shards.

    Example: python -m dialog prepare dailydialog/transformer data.path=DIR
    """
    from dialog.data.store.manifest import read_manifest
    from dialog.runs.check import check_data
    from dialog.runs.prepare import prepare_data, prepare_part

    if shard and merges:
        raise UserError(
            "--shard prepares one shard, --merge merges all of them; give one of the two"
        )
    if (shard or merges) and (workers > 1 or engine != "processes"):
        raise UserError("--shard and --merge run in one process; remove --workers and --engine")
    if shard and as_json:
        raise UserError("--json: not with --shard, which has no manifest")
    composed = compose(recipe, overrides, trust=FULL_TRUST).recipe
    check_data(composed)
    if shard:
        click.echo(str(prepare_part(composed, *shard)))
        return
    folder = prepare_data(composed, quiet=False, engine=engine, workers=workers, merges=merges)
    manifest = read_manifest(folder)
    batches = plan_batches(folder, manifest, composed.data)
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "batches": batches, **manifest}, indent=1))
        return
    click.echo(str(folder))
    click.echo(f"vocabulary: {manifest['vocabulary']:,}")
    click.echo("\n".join(table(manifest["splits"], batches)))
    for split, remarks in manifest["remarks"].items():
        for remark in chain.from_iterable(remarks.values()):
            click.echo(f"{split}: {one_line(remark)}")


def table(splits: dict[str, dict[str, int]], batches: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a table of counts, with a row per count and a column per split."""
    reasons = {key for counts in splits.values() for key in counts}
    order = (
        "dialogues read",
        "dropped dialogues",
        "dialogues",
        "turns read",
        "dropped turns",
        "turns",
    )
    keys = sorted(
        reasons,
        key=lambda key: (
            next((n for n, name in enumerate(order) if key.split(":")[0] == name), 9),
            key,
        ),
    )
    rows = [(key, *(f"{counts.get(key, 0):,}" for counts in splits.values())) for key in keys]
    rows.append(("batches", *(f"{batches[split]['number']:,}" for split in splits)))
    rows.append(
        ("padding in batches, at most", *(f"{batches[split]['padding']:.1%}" for split in splits))
    )
    width = max(len(row[0]) for row in rows)
    yield " " * width + "".join(f"  {split:>12}" for split in splits)
    for key, *cells in rows:
        yield f"{key:<{width}}" + "".join(f"  {cell:>12}" for cell in cells)


def plan_batches(
    folder: Path, manifest: dict[str, Any], data: DataConfig
) -> dict[str, dict[str, Any]]:
    """Return for each split the number of batches and an upper bound of their fraction of
    padding.
    """
    from dialog.data.store.length_classes import grouped, read_classes, static_classes
    from dialog.data.store.plan import Plan

    batches = {}
    for split, counts in manifest["splits"].items():
        examples = data.batch_examples if split == "train" else None
        classes = read_classes(folder, manifest, split)
        if split == "train" and data.static_shapes is True:
            classes = static_classes(classes)
        classes = classes if examples is None else grouped(classes, data.grouping)
        plan = Plan(classes, budget=data.batch_tokens, examples=examples)
        real = counts["source tokens"] + counts["target tokens"]
        batches[split] = {"number": len(plan), "padding": 1 - real / plan.padded}
    return batches
