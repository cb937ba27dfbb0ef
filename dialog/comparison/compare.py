"""Train what is not trained yet, evaluate, and write the report."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dialog.atomic import write_json, write_text
from dialog.comparison import results as found
from dialog.comparison.parity import Contender, parity
from dialog.config.compose import Composed, compose, with_seed
from dialog.errors import UserError
from dialog.paths import fresh_folder, make_folder, name_of
from dialog.report.html import write_html
from dialog.report.markdown import to_markdown
from dialog.runs.check import check_recipe
from dialog.runs.evaluate import evaluate
from dialog.runs.load import load as load_run
from dialog.runs.prepare import prepare_data
from dialog.runs.run import Run
from dialog.runs.train import train
from dialog.training.distributed.cluster import starter

SPLIT = "test"


@dataclass(frozen=True)
class Entry:
    """What is compared under one name: a recipe to train with several seeds, or a run that is there."""

    name: str
    composed: Composed
    run: Path | None = None
    trust: bool = True  # a recipe of the user's own may import code

    def load(self, folder: Path) -> Run:
        """One of its runs."""
        return load_run(folder, trust=self.trust)


def entries(names: Sequence[str], overrides: Sequence[str], *, trust: bool = False) -> list[Entry]:
    """The recipes and run folders of a command line; each name once."""
    made = apart([entry(name, overrides, trust=trust) for name in names])
    if len(made) < 2:
        raise UserError("a comparison needs two recipes or runs, or more")
    if overrides and all(each.run is not None for each in made):
        raise UserError(f"{overrides[0]}: runs are compared as they were trained; overrides are for recipes")
    for place, each in enumerate(made):
        if each.name in {other.name for other in made[:place]}:
            raise UserError(f"{each.name} is there twice; give each recipe once, and files names of their own")
    return made


def apart(made: list[Entry]) -> list[Entry]:
    """Runs of the same name are called by their whole paths."""
    names = Counter(each.name for each in made)
    return [
        replace(each, name=each.run.as_posix()) if each.run is not None and names[each.name] > 1 else each
        for each in made
    ]


def entry(name: str, overrides: Sequence[str], *, trust: bool) -> Entry:
    """A recipe, or a run folder, which imports code only if it is trusted."""
    folder = Path(name)
    if folder.is_dir():
        load_run(folder, trust=trust)
        return Entry(name_of(folder), compose(str(folder / "recipe.yaml")), folder, trust)
    composed = compose(name, overrides)
    return Entry(composed.name, composed)


def compare(
    listed: Sequence[Entry], *, seeds: Sequence[int], output: Path | None, command: str
) -> tuple[Path, dict[str, Any]]:
    """Train every recipe with every seed, score all on the test split; the folder and what results.json holds.

    Raises:
        UserError: where the recipes do not share data, tokenizer and test set: that is no comparison.
    """
    alone()
    for each in listed:
        if each.run is None and check_recipe(each.composed.recipe) > 1:
            raise UserError(
                f"{each.name}: compare trains in one process; train with more, then compare the run folders"
            )
    prepared = {each.name: prepare_data(each.composed.recipe, quiet=False) for each in listed}
    check_same_data(prepared)
    folder = make_folder(output or fresh_folder("comparisons"))
    began = time.monotonic()
    contenders = [contender(each, seeds, folder) for each in listed]
    models = [each.model for each in contenders]
    first = [folder / model["runs"][0]["folder"] for model in models]
    shown = found.samples(first, SPLIT)
    sample = found.telling(shown)
    maps = [
        found.attention(each.load(path), model["name"], model["runs"][0]["metrics"], sample, place)
        for place, (each, model, path) in enumerate(zip(listed, models, first, strict=True))
    ]
    results = {
        "format": 1,
        "command": command,
        "environment": contenders[0].environment,
        "split": SPLIT,
        "seconds": time.monotonic() - began,
        "models": models,
        "parity": parity(contenders),
        "samples": shown,
        "attention": [each for each in maps if each is not None],
    }
    write_json(folder / "results.json", results)
    write_text(folder / "report.md", to_markdown(results))
    write_html(results, folder / "report.html")
    return folder, results


def alone() -> None:
    """Refuse to compare in several processes, which would all do the same."""
    found = starter()
    if found is not None and found[1] > 1:
        raise UserError(
            f"compare runs in one process, {found[0]} started {found[1]}: train with them, then start compare alone "
            "with the run folders"
        )


def check_same_data(prepared: dict[str, Path]) -> None:
    """Models that do not read the same prepared data are not compared."""
    if len(set(prepared.values())) > 1:
        differ = "; ".join(f"{name}: {path.name}" for name, path in prepared.items())
        raise UserError(f"the recipes do not share data and tokenizer ({differ}); give them the same data section")


def contender(each: Entry, seeds: Sequence[int], folder: Path) -> Contender:
    """Train and evaluate one recipe with every seed."""
    from dialog.models.seq2seq import count_parameters

    runs: list[dict[str, Any]] = []
    environment: dict[str, Any] = {}
    parameters: dict[str, int] = {}
    for seed in seeds if each.run is None else [each.composed.recipe.seed]:
        say(f"== {each.name}, seed {seed}")
        path = each.run or folder / "runs" / each.name / f"seed-{seed}"
        if each.run is None:
            train(with_seed(each.composed, seed), path)
        composed = compose(str(path / "recipe.yaml"))  # as it was run, with its precision
        trained = json.loads((path / "summary.json").read_text(encoding="utf-8"))
        run = each.load(path)
        metrics = evaluate(run, SPLIT)
        parameters = count_parameters(run.model)
        environment = environment or json.loads((path / "environment.json").read_text(encoding="utf-8"))
        shown = path.relative_to(folder) if path.is_relative_to(folder) else path.resolve()
        runs.append({"seed": seed, "folder": str(shown), **trained, "metrics": metrics, "curve": found.curve(path)})
    model = {"name": each.name, "parameters": parameters, "runs": runs, "summary": found.summary(runs)}
    return Contender(composed.recipe, environment, model)


def say(line: str) -> None:
    """Progress, on standard error."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - progress
