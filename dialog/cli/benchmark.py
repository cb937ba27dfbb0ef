"""``dialog benchmark``."""

from __future__ import annotations

import time

import click

from dialog.cli.completion import recipes, settings
from dialog.cli.options import precision_option
from dialog.config.compose import compose
from dialog.config.trust import FULL_TRUST
from dialog.escaping import to_json


@click.command()
@click.argument("recipe", shell_complete=recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=settings)
@click.option(
    "--steps",
    type=click.IntRange(1),
    default=50,
    show_default=True,
    help="Measured optimizer steps.",
)
@click.option(
    "--warm-up",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Warm-up steps (not measured).",
)
@click.option("--generation/--no-generation", default=True, help="Also measure generation.")
@precision_option
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print all figures as JSON: seconds, bytes, FLOP/s, fractions.",
)
def benchmark(
    recipe: str,
    overrides: tuple[str, ...],
    steps: int,
    warm_up: int,
    generation: bool,
    precision: str,
    as_json: bool,
) -> None:
    """Measure the speed and memory of a RECIPE in training and generation.

    Trains in one process with the recipe's settings, without validation, checkpoints and loggers,
    and writes no files. FLOPs count the matrix products of the forward and backward pass for real
    tokens, not padding; in generation of a forward pass over contexts and returned responses. The
    share of the bound is relative to the speed of a large matrix product on this machine. Every
    generated response has 32 tokens and the end token; --precision is that of generation only.

    Example: python -m dialog benchmark quickstart/transformer trainer.precision=bf16-mixed
    """
    composed = compose(recipe, overrides, trust=FULL_TRUST)
    from dialog.benchmark import benchmark as measure

    imported = time.perf_counter()
    generating = precision if generation else None
    results = measure.benchmark(
        composed, steps=steps, warm_up=warm_up, precision=generating, imported=imported
    )
    click.echo(to_json(results) if as_json else measure.to_text(results), nl=as_json)
