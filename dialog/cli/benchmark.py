"""``dialog benchmark``."""

from __future__ import annotations

import time

import click

from dialog.config.compose import compose
from dialog.escaping import to_json


@click.command()
@click.argument("recipe")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--steps", type=click.IntRange(1), default=50, show_default=True, help="Optimizer steps that count.")
@click.option("--warm-up", type=click.IntRange(1), default=10, show_default=True, help="Steps before them.")
@click.option("--generation/--no-generation", default=True, help="Also answer contexts.")
@click.option("--json", "as_json", is_flag=True, help="All figures as JSON: seconds, bytes, FLOP/s, shares of 1.")
def benchmark(
    recipe: str, overrides: tuple[str, ...], steps: int, warm_up: int, generation: bool, as_json: bool
) -> None:
    """Train a RECIPE for a moment and answer with it: tokens per second, memory and share of the machine's bound.

    Training is the recipe's own, in one process, without validation, checkpoints and W&B; nothing is kept. FLOPs are
    those of the products in forward and backward pass for real tokens, the bound is a large matrix product. Responses
    have 32 tokens, whatever the network would say.

    Example: dialog-seq2seq benchmark quickstart/transformer trainer.precision=bf16-mixed
    """
    composed = compose(recipe, overrides)
    from dialog.profiling import benchmark as measure

    found = measure.benchmark(
        composed, steps=steps, warm_up=warm_up, generation=generation, imported=time.perf_counter()
    )
    click.echo(to_json(found) if as_json else measure.to_text(found), nl=as_json)
