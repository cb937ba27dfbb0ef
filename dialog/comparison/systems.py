"""The contenders of a finished grid with their runs, as plain data for results.json."""

from __future__ import annotations

from typing import Any

from dialog.comparison.grid.folder import Cell, Contender, Grid
from dialog.comparison.grid.work import SPLIT, Work, is_diverged
from dialog.comparison.parity import EvaluatedSystem, parity
from dialog.comparison.results import attention_map, draw_samples, learning_curve, select_sample, summarize
from dialog.config.compose import compose
from dialog.json_files import read_json
from dialog.runs.folder import ENVIRONMENT, METRICS, RECIPE, read_summary
from dialog.runs.load import load


def compared_systems(work: Work) -> list[EvaluatedSystem]:
    """Return the contenders that have a finished run."""
    finished: dict[str, list[Cell]] = {}
    for cell in work.cells:
        if work.is_finished(cell):
            finished.setdefault(cell.contender.name, []).append(cell)
    return [
        compared_system(contender, finished[contender.name], work)
        for contender in work.grid.contenders
        if contender.name in finished
    ]


def compared_system(contender: Contender, cells: list[Cell], work: Work) -> EvaluatedSystem:
    """Return a contender with its runs."""
    from dialog.models.seq2seq import count_parameters

    runs = [run_entry(cell, work) for cell in cells]
    first = cells[0].folder
    model = {
        "name": contender.name,
        "parameters": count_parameters(load(first, trust=True).model),
        "runs": runs,
        "summary": summarize(runs),
    }
    trained = compose(str(first / RECIPE)).recipe  # with the precision of the machine
    return EvaluatedSystem(trained, read_json(first / ENVIRONMENT), model)


def run_entry(cell: Cell, work: Work) -> dict[str, Any]:
    """Return the entry of a run under "runs" in results.json."""
    root, folder, evaluated = work.grid.folder, cell.folder, work.evaluation(cell)
    curve = learning_curve(folder) if (folder / METRICS).is_file() else []
    last = curve[-1] if curve else {"step": 0, "seconds": 0.0, "target_tokens": 0}
    summary = read_summary(folder)
    return {
        "seed": cell.seed,
        "folder": str(folder.relative_to(root) if folder.is_relative_to(root) else folder.resolve()),
        "evaluation": str(evaluated.folder.relative_to(folder)) if evaluated else "",
        "steps": summary.steps if summary else last["step"],
        "seconds": summary.seconds if summary else last["seconds"],
        "target_tokens": summary.target_tokens if summary else last["target_tokens"],
        "diverged": is_diverged(folder),
        "metrics": evaluated.metrics if evaluated else {},
        "curve": curve,
    }


def results_of(grid: Grid, systems: list[EvaluatedSystem]) -> dict[str, Any]:
    """Return the content of results.json."""
    models = [system.model for system in systems]
    runs = [next(run for run in model["runs"] if run["metrics"]) for model in models]
    folders = [grid.folder / run["folder"] for run in runs]
    samples = draw_samples([folder / run["evaluation"] for folder, run in zip(folders, runs, strict=True)])
    sample = select_sample(samples)
    maps = [
        attention_map(load(folder, trust=True), model["name"], run["metrics"], sample["context"], response)
        for folder, model, run, response in zip(folders, models, runs, sample["responses"], strict=True)
    ]
    return {
        "format": 1,
        "command": " && ".join(grid.commands),
        "environment": systems[0].environment,
        "split": SPLIT,
        "seconds": sum(run["seconds"] for model in models for run in model["runs"]),
        "models": models,
        "parity": parity(systems),
        "samples": samples,
        "attention": [attention for attention in maps if attention is not None],
    }
