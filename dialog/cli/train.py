"""``dialog train``."""

from __future__ import annotations

from pathlib import Path

import click

from dialog.folders import is_first_process, refuse_existing
from dialog.recipe import compose


@click.command()
@click.argument("recipe")
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--output", type=click.Path(path_type=Path), help="Run folder [default: runs/RECIPE/TIME-RANDOM].")
def train(recipe: str, overrides: tuple[str, ...], output: Path | None) -> None:
    """Train a RECIPE and print the run folder.

    Example: dialog-seq2seq train quickstart/transformer trainer.max_epochs=2 logger=wandb
    """
    composed = compose(recipe, overrides)
    if output is not None and is_first_process():
        refuse_existing(output)
    from dialog import assemble

    click.echo(str(assemble.train(composed, output).folder))
