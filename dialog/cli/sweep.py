"""``dialog sweep``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dialog.cli.completion import recipes_and_settings
from dialog.cli.options import is_given, trust_option
from dialog.config.compose import compose, split_overrides
from dialog.config.trust import FULL_TRUST, Trust
from dialog.errors import UserError, install
from dialog.escaping import to_json
from dialog.paths import check_new, fresh_folder

if TYPE_CHECKING:
    from dialog.tuning.sweep import SweepSettings


@click.command()
@click.argument(
    "recipes", nargs=-1, metavar="[RECIPE]... [KEY=VALUE]...", shell_complete=recipes_and_settings
)
@click.option("--trials", type=click.IntRange(1), help="Number of trials per recipe [default: 20].")
@click.option(
    "--space",
    default="regularisation",
    show_default=True,
    help="Search space: a YAML file, or a shipped name.",
)
@click.option(
    "--sampler",
    type=click.Choice(["tpe", "random"]),
    default="tpe",
    show_default=True,
    help="tpe learns from earlier trials, random does not.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Seed of the sampler; the seed of a recipe is not changed.",
)
@click.option(
    "--prune/--no-prune",
    default=True,
    help="Stop trials that are worse than the median, from half time on.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Folder of the sweep [default: sweeps/TIME-RANDOM].",
)
@click.option(
    "--resume",
    type=click.Path(path_type=Path),
    metavar="SWEEP",
    help="Resume a sweep, or extend it to more --trials.",
)
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table.")
@trust_option
def sweep(
    recipes: tuple[str, ...],
    trials: int | None,
    space: str,
    sampler: str,
    seed: int,
    prune: bool,
    output: Path | None,
    resume: Path | None,
    as_json: bool,
    trust: Trust,
) -> None:
    """Sweep hyperparameters of RECIPES on the validation split, with the same budget for each
    recipe.

    Needs the extra optuna. Pruned and failed trials count. The test split is never read.

    Example: python -m dialog sweep quickstart/lstm_bahdanau quickstart/transformer --trials 10
        trainer.max_steps=500
    """
    if find_spec("optuna") is None:
        raise UserError(f"a sweep needs optuna: {install('optuna')}")
    if bool(recipes) == (resume is not None):
        raise UserError("give recipes to sweep, or --resume SWEEP" + ", not both" * bool(recipes))
    from dialog.tuning import sweep as sweeps
    from dialog.tuning.results import to_markdown
    from dialog.tuning.space import simplest, spaces, sweep_file

    if resume is not None:
        folder = resume
        requested = sweeps.read_settings(resume)
        changes = {
            "sampler": sampler,
            "seed": seed,
            "prune": prune,
            "output": output,
            "space": space,
        }
        check_unchanged(
            requested, {name: value for name, value in changes.items() if is_given(name)}
        )
        requested = replace(requested, trials=trials or requested.trials)
    else:
        if output is not None:
            check_new(output)
        names, overrides = split_overrides(recipes)
        trust = FULL_TRUST
        composed = [compose(name, overrides, trust=trust) for name in names]
        labels = [recipe.name for recipe in composed]
        if len(set(labels)) < len(labels):
            raise UserError(
                f"two recipes have the same name: {', '.join(labels)}; rename one of the files"
            )
        chosen = spaces(sweep_file("spaces", space, option="--space"), labels)
        requested = sweeps.SweepSettings(chosen, trials or 20, seed, sampler, prune)
        firsts = [simplest(chosen[label]) for label in labels]
        sweeps.check(
            [
                compose(name, [*overrides, *first], trust=trust)
                for name, first in zip(names, firsts, strict=True)
            ]
        )
        folder = output or fresh_folder("sweeps")
        sweeps.create(composed, requested, folder)
    result = sweeps.sweep(folder, requested, trust)
    click.echo(to_json(result) if as_json else to_markdown(result), nl=as_json)
    click.echo(f"sweep: {folder}", err=True)


def check_unchanged(recorded: SweepSettings, options: Mapping[str, Any]) -> None:
    """Raise UserError if an option given with --resume differs from what the sweep has recorded."""
    from dialog.tuning.space import spaces, sweep_file

    for name, value in options.items():
        if name == "space":
            same = (
                spaces(sweep_file("spaces", value, option="--space"), list(recorded.spaces))
                == recorded.spaces
            )
        else:
            same = name != "output" and value == getattr(recorded, name)
        if not same:
            option = "--no-prune" if name == "prune" and not value else f"--{name}"
            raise UserError(
                f"--resume: {option} cannot change within a sweep; leave it out, or start a new"
                " sweep"
            )
