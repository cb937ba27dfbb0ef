"""``dialog train``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from dialog.config.compose import compose
from dialog.errors import UserError
from dialog.paths import check_new
from dialog.ranks import is_first_process


@click.command()
@click.argument("recipe", required=False)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--output", type=click.Path(path_type=Path), help="Run folder [default: runs/RECIPE/TIME-RANDOM].")
@click.option("--resume", type=click.Path(path_type=Path), metavar="RUN", help="Go on where a run stopped.")
@click.option("--trust", is_flag=True, help="With --resume: import what the run's recipe names.")
@click.option("--prove-resume", is_flag=True, help="Train in small, killed at random steps: is it the same run?")
@click.option("--kills", type=click.IntRange(min=1), default=3, show_default=True, help="With --prove-resume.")
def train(
    recipe: str | None,
    overrides: tuple[str, ...],
    output: Path | None,
    resume: Path | None,
    trust: bool,
    prove_resume: bool,
    kills: int,
) -> None:
    """Train a RECIPE and print the run folder.

    Example: dialog-seq2seq train quickstart/transformer trainer.max_epochs=2 logger=wandb

    A run that was stopped or killed goes on with: dialog-seq2seq train --resume RUN
    """
    if resume is not None:
        given = (recipe, *overrides) if recipe else overrides
        if output is not None or any("=" not in each and not each.startswith("~") for each in given):
            raise UserError("--resume RUN takes neither a recipe nor --output: the run has both")
        from dialog.runs.resume import resume as resume_run
        from dialog.runs.train import train as train_run

        click.echo(str(resume_run(resume, given, trust=trust).folder))
        return
    if recipe is None:
        raise UserError("train needs a recipe; dialog-seq2seq recipes lists them, --resume RUN goes on with a run")
    if prove_resume:
        sys.exit(0 if prove(recipe, overrides, kills) else 1)
    composed = compose(recipe, overrides)
    if output is not None and is_first_process():
        check_new(output)
    from dialog.runs.resume import resume as resume_run
    from dialog.runs.train import train as train_run

    click.echo(str(train_run(composed, output).folder))


def prove(recipe: str, overrides: tuple[str, ...], kills: int) -> bool:
    """Print whether a training that is killed and gone on with is the one that was left alone."""
    from dialog.runs import proof

    with tempfile.TemporaryDirectory(prefix="dialog-") as folder:
        steps, found = proof.prove(recipe, overrides, Path(folder), kills=kills)
    click.echo("| compared to the last bit | in all | that differ |\n| --- | ---: | ---: |")
    click.echo(f"| logged numbers | {found.values} | {found.other_values} |")
    click.echo(f"| weights, newest and best | {found.tensors} | {found.other_tensors} |")
    click.echo(f"killed by SIGKILL after steps {', '.join(map(str, steps))}" if steps else "it was over before a kill")
    return found.same and bool(steps)
