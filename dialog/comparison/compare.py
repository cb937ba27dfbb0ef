"""Train the recipes of a comparison, evaluate all runs and write the report."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dialog.atomic import write_json, write_text
from dialog.comparison.parity import EvaluatedSystem, parity
from dialog.comparison.results import attention_map, draw_samples, learning_curve, select_sample, summarize
from dialog.config.compose import Composed, compose, with_seed
from dialog.errors import UserError
from dialog.json_files import read_json
from dialog.paths import fresh_folder, make_folder, name_of
from dialog.report.html import write_html
from dialog.report.markdown import to_markdown
from dialog.runs.check import check_recipe
from dialog.runs.evaluate import evaluate
from dialog.runs.folder import read_summary
from dialog.runs.load import load as load_run
from dialog.runs.prepare import prepare_data
from dialog.runs.run import Run
from dialog.runs.train import PartOf, train
from dialog.training.distributed.cluster import external_launcher

SPLIT = "test"


@dataclass(frozen=True)
class System:
    """One side of a comparison: a recipe to train with several seeds, or a trained run."""

    name: str
    composed: Composed
    run: Path | None = None
    trust: bool = True  # recipes on the command line may import code

    def load(self, folder: Path) -> Run:
        """Load one of its runs."""
        return load_run(folder, trust=self.trust)


def load_systems(names: Sequence[str], overrides: Sequence[str], *, trust: bool = False) -> list[System]:
    """Read recipes and run folders from a command line.

    Raises:
        UserError: fewer than two, a name listed twice, or overrides without a recipe.
    """
    systems = use_distinct_names([load_system(name, overrides, trust=trust) for name in names])
    if len(systems) < 2:
        raise UserError("compare needs at least two recipes or run folders")
    if overrides and all(system.run is not None for system in systems):
        raise UserError(f"{overrides[0]}: overrides apply to recipes, not to trained runs; remove it")
    for name, count in Counter(system.name for system in systems).items():
        if count > 1:
            raise UserError(f"{name}: listed twice; list each recipe once, and rename files of the same name")
    return systems


def use_distinct_names(systems: list[System]) -> list[System]:
    """Replace the names of runs that share a name by their paths."""
    counts = Counter(system.name for system in systems)
    return [
        replace(system, name=system.run.as_posix()) if system.run is not None and counts[system.name] > 1 else system
        for system in systems
    ]


def load_system(name: str, overrides: Sequence[str], *, trust: bool) -> System:
    """Read a recipe, or a run folder, which may import code only if `trust` is set."""
    folder = Path(name)
    if folder.is_dir():
        load_run(folder, trust=trust)
        if read_summary(folder) is None:
            raise UserError(
                f"{folder}: training has not finished; resume it with dialog-seq2seq train --resume {folder}"
            )
        return System(name_of(folder), compose(str(folder / "recipe.yaml")), folder, trust)
    composed = compose(name, overrides)
    return System(composed.name, composed)


def compare(
    systems: Sequence[System], *, seeds: Sequence[int], output: Path | None, command: str
) -> tuple[Path, dict[str, Any]]:
    """Train every recipe with every seed and evaluate on the test split; return the folder and results.json.

    Raises:
        UserError: the recipes differ in data or tokenizer, or need several processes.
    """
    check_single_process(systems)
    check_same_data({system.name: prepare_data(system.composed.recipe, quiet=False) for system in systems})
    folder = make_folder(output or fresh_folder("comparisons"))
    began = time.monotonic()
    evaluated = [train_and_evaluate(system, seeds, folder) for system in systems]
    models = [system.model for system in evaluated]
    first_runs = [folder / model["runs"][0]["folder"] for model in models]
    evaluations = [path / model["runs"][0]["evaluation"] for path, model in zip(first_runs, models, strict=True)]
    samples = draw_samples(evaluations)
    sample = select_sample(samples)
    maps = [
        attention_map(system.load(path), model["name"], model["runs"][0]["metrics"], sample["context"], response)
        for system, path, model, response in zip(systems, first_runs, models, sample["responses"], strict=True)
    ]
    results = {
        "format": 1,
        "command": command,
        "environment": evaluated[0].environment,
        "split": SPLIT,
        "seconds": time.monotonic() - began,
        "models": models,
        "parity": parity(evaluated),
        "samples": samples,
        "attention": [attention for attention in maps if attention is not None],
    }
    write_json(folder / "results.json", results)
    write_text(folder / "report.md", to_markdown(results))
    write_html(results, folder / "report.html")
    return folder, results


def check_single_process(systems: Sequence[System]) -> None:
    """Raise UserError if a launcher started several processes, or if a recipe trains in several."""
    launched = external_launcher()
    if launched is not None and launched[1] > 1:
        launcher, processes = launched
        raise UserError(
            f"compare runs in one process, but {launcher} started {processes}; "
            f"train with {launcher}, then compare the run folders in one process"
        )
    for system in systems:
        if system.run is None and (processes := check_recipe(system.composed.recipe)) > 1:
            raise UserError(
                f"{system.name}: compare trains in one process, but this recipe uses {processes}; "
                "train it first, then compare the run folders"
            )


def check_same_data(prepared: dict[str, Path]) -> None:
    """Raise UserError unless all systems read the same prepared data."""
    if len(set(prepared.values())) > 1:
        folders = "; ".join(f"{name}: {path.name}" for name, path in prepared.items())
        raise UserError(f"the recipes do not share data and tokenizer ({folders}); give them the same `data` section")


def train_and_evaluate(system: System, seeds: Sequence[int], folder: Path) -> EvaluatedSystem:
    """Train a recipe with every seed, or take its trained run, and evaluate each run."""
    from dialog.models.seq2seq import count_parameters

    runs: list[dict[str, Any]] = []
    environment: dict[str, Any] = {}
    parameters: dict[str, int] = {}
    for seed in seeds if system.run is None else [system.composed.recipe.seed]:
        print(f"== {system.name}, seed {seed}", file=sys.stderr, flush=True)  # noqa: T201 - progress
        path = system.run or folder / "runs" / system.name / f"seed-{seed}"
        if system.run is None:
            train(with_seed(system.composed, seed), path, part_of=PartOf(f"{system.name} seed {seed}", folder.name))
        composed = compose(str(path / "recipe.yaml"))  # as trained: with the precision of the machine
        training = read_json(path / "summary.json", "steps")
        run = system.load(path)
        evaluated, metrics = evaluate(run, SPLIT)
        parameters = count_parameters(run.model)
        environment = environment or read_json(path / "environment.json")
        location = path.relative_to(folder) if path.is_relative_to(folder) else path.resolve()
        paths = {"folder": str(location), "evaluation": str(evaluated.relative_to(path))}
        runs.append({"seed": seed, **paths, **training, "metrics": metrics, "curve": learning_curve(path)})
    model = {"name": system.name, "parameters": parameters, "runs": runs, "summary": summarize(runs)}
    return EvaluatedSystem(composed.recipe, environment, model)
