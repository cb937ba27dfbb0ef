"""``dialog search``."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click

from dialog.config.compose import compose
from dialog.errors import UserError
from dialog.escaping import to_json
from dialog.paths import check_new, fresh_folder, make_folder


@click.command()
@click.argument("recipes", nargs=-1, metavar="[RECIPE]... [KEY=VALUE]...")
@click.option("--trials", type=click.IntRange(1), help="How often each recipe is trained [default: 20].")
@click.option("--space", default="regularisation", show_default=True, help="What is chosen: a YAML file, or a name.")
@click.option(
    "--sampler",
    type=click.Choice(["tpe", "random"]),
    default="tpe",
    show_default=True,
    help="tpe learns from the trials before, random does not.",
)
@click.option("--seed", type=int, default=1, show_default=True, help="Of the choices; a recipe's own seed stays.")
@click.option("--prune/--no-prune", default=True, help="Give up trials that are worse than half of the others.")
@click.option("--output", type=click.Path(path_type=Path), help="Folder of the search [default: searches/...].")
@click.option("--resume", type=click.Path(path_type=Path), help="Go on with a search, or give it more --trials.")
@click.option("--json", "as_json", is_flag=True, help="Print results.json instead of the table.")
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
) -> None:
    """Search for hyperparameters of RECIPES by the validation split, with the same budget for each.

    Needs the extra optuna. A trial that is pruned or fails counts as one. The test split is not looked at.

    Example: dialog-seq2seq sweep quickstart/lstm_bahdanau quickstart/transformer --trials 10 trainer.max_steps=500
    """
    if find_spec("optuna") is None:
        raise UserError("a search needs optuna: pip install 'dialog-seq2seq[optuna]'")
    if bool(recipes) == (resume is not None):
        raise UserError("name recipes, or a folder to --resume" if not recipes else "--resume knows its recipes")
    from dialog.tuning import sweep as found
    from dialog.tuning.results import to_markdown
    from dialog.tuning.space import simplest, space_file, spaces

    if resume is not None:
        settings = known_settings(resume)
        folder = resume
        if trials is not None:
            settings["trials"] = trials
        asked = found.Settings(**settings)
    else:
        if output is not None:
            check_new(output)
        names = [each for each in recipes if "=" not in each and not each.startswith("~")]
        overrides = [each for each in recipes if each not in names]
        composed = [compose(name, overrides) for name in names]
        labels = [each.name for each in composed]
        if len(set(labels)) < len(labels):
            raise UserError(f"two recipes are called alike: {', '.join(labels)}")
        chosen = spaces(space_file(space), labels)
        asked = found.Settings(chosen, trials or 20, seed, sampler, prune)
        tried = [(name, simplest(chosen[each])) for name, each in zip(names, labels, strict=True)]
        found.check([compose(name, [*overrides, *values]) for name, values in tried])
        folder = make_folder(output or fresh_folder("searches"))
        found.begin(composed, asked, folder)
    result = found.search(folder, asked)
    click.echo(to_json(result) if as_json else to_markdown(result), nl=as_json)
    click.echo(f"search: {folder}", err=True)


def known_settings(folder: Path) -> dict[str, Any]:
    """What a search was asked for."""
    try:
        settings: dict[str, Any] = json.loads((folder / "search.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"--resume {folder}: no search is there, as it has no search.json") from error
    return settings
