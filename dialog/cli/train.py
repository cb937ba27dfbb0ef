"""``dialog train``."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dialog.cli.completion import recipes, settings
from dialog.cli.options import check_only_with, trust_option
from dialog.config.compose import compose, split_overrides
from dialog.config.trust import FULL_TRUST, Trust
from dialog.errors import UserError
from dialog.paths import check_new
from dialog.ranks import is_first_process

if TYPE_CHECKING:
    from dialog.runs.folder import Trained


@click.command()
@click.argument("recipe", required=False, shell_complete=recipes)
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=settings)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Run folder [default: runs/RECIPE/TIME-RANDOM].",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="RUN",
    help="Resume a run at its newest checkpoint.",
)
@trust_option
@click.option(
    "--prove-resume",
    is_flag=True,
    help="Check that a killed and resumed run is bit-identical to an uninterrupted one.",
)
@click.option(
    "--kills",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="With --prove-resume: number of kills.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print folder, steps, target tokens and seconds as JSON.",
)
def train(
    recipe: str | None,
    overrides: tuple[str, ...],
    output: Path | None,
    resume: Path | None,
    trust: Trust,
    prove_resume: bool,
    kills: int,
    as_json: bool,
) -> None:
    """Train a RECIPE and print the run folder.

    Example: python -m dialog train quickstart/transformer trainer.max_epochs=2 logger=wandb

    Resume a stopped or killed run: python -m dialog train --resume RUN
    """
    check_only_with("--resume RUN", resume, "trust")
    check_only_with("--prove-resume", prove_resume, "kills")
    for option, value in {"--json": as_json, "--resume": resume, "--output": output}.items():
        if prove_resume and value:
            raise UserError(f"{option}: not with --prove-resume; remove one of them")
    if resume is not None:
        recipes, changes = split_overrides((recipe, *overrides) if recipe else overrides)
        if output is not None or recipes:
            raise UserError("--resume RUN takes neither a recipe nor --output; remove them")
        from dialog.runs.train import resume as resume_run

        report(resume_run(resume, changes, trust=trust), as_json)
        return
    if recipe is None:
        raise UserError(
            "no recipe given; list them with python -m dialog recipes, or resume a run with"
            " --resume RUN"
        )
    if prove_resume:
        sys.exit(0 if prove(recipe, overrides, kills) else 1)
    composed = compose(recipe, overrides, trust=FULL_TRUST)
    composed.warn_of_dropped()
    if output is not None and is_first_process():
        check_new(output)
    from dialog.runs.train import train as train_run

    report(train_run(composed, output), as_json)


def report(trained: Trained, as_json: bool) -> None:
    """Print the run folder, or the summary of the training; the result and what to do next go to
    standard error.
    """
    if as_json:
        click.echo(json.dumps(asdict(trained), default=str))
        return
    click.echo(result_line(trained), err=True)
    click.echo(f"next: python -m dialog chat {shlex.quote(str(trained.folder))}", err=True)
    click.echo(str(trained.folder))


def result_line(trained: Trained) -> str:
    """Return steps, time and the lowest validation loss of a training."""
    from dialog.json_files import read_json_lines
    from dialog.report.formats.numbers import duration
    from dialog.runs.folder import METRICS

    line = f"trained {trained.steps:,} steps in {duration(trained.seconds)}"
    record = trained.folder / METRICS
    if not record.is_file():
        return line
    losses = [
        (row["validation/loss"], row["step"])
        for row in read_json_lines(record)
        if isinstance(row.get("validation/loss"), float)
    ]
    if not losses:
        return line
    loss, step = min(losses)
    return f"{line}; lowest validation loss {loss:.3f} nats per token, at step {step:,}"


def prove(recipe: str, overrides: tuple[str, ...], kills: int) -> bool:
    """Print the comparison of a killed and resumed run with an uninterrupted one; return whether
    they are equal.
    """
    from dialog.runs import proof

    with tempfile.TemporaryDirectory(prefix="dialog-") as folder:
        steps, comparison = proof.prove(recipe, overrides, Path(folder), kills=kills)
    click.echo("| compared bit by bit | total | different |\n| --- | ---: | ---: |")
    click.echo(f"| logged numbers | {comparison.values} | {comparison.other_values} |")
    click.echo(f"| weights, newest and best | {comparison.tensors} | {comparison.other_tensors} |")
    click.echo(
        f"killed by SIGKILL after steps {', '.join(map(str, steps))}"
        if steps
        else "training finished before the first kill"
    )
    return comparison.same and bool(steps)
