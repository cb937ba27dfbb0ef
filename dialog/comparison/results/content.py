"""Analyse the finished runs of a comparison: the content of results.json, format 2."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from dialog.analysis.calibration import pooled
from dialog.analysis.measured import Measured
from dialog.comparison.breakdown import breakdown, example_properties
from dialog.comparison.cost import cost, seconds_to_common_value
from dialog.comparison.crossings import crossings
from dialog.comparison.grid.folder import SPLIT, Grid
from dialog.comparison.history import history_results, measure_history, sample_of
from dialog.comparison.parity import parity
from dialog.comparison.references import ngram_warnings, references_of
from dialog.comparison.results.samples import attention_map, disagreements, draw_samples, rating_pairs, select_sample
from dialog.comparison.results.systems import System
from dialog.comparison.statistics.differences import Better, differences
from dialog.comparison.statistics.measured import Counts, RunMetric, Sums
from dialog.comparison.statistics.subset import SystemRuns
from dialog.report.measures import metric_display
from dialog.runs.load import load

FORMAT = 2
LEVEL, RESAMPLES = 0.95, 10_000
REDUNDANT = ("nll_nats", "perplexity_token", "perplexity_word")
"""Functions of the same likelihood as bits per byte; they are not tested, so the correction for tests is smaller."""

log = logging.getLogger("dialog")


def results_of(grid: Grid, systems: Sequence[System], failures: Mapping[str, str]) -> dict[str, Any]:
    """Return the content of results.json.

    Args:
        grid: Contenders and seeds.
        systems: Contenders with an evaluated run.
        failures: Messages of failed runs, by name.
    """
    models = models_of(systems)
    first = [system.measured_runs[0] for system in systems]
    rows = [run.measured.rows for run in first if run.measured is not None]
    evaluated = [run.entry["metrics"] for run in first]
    metrics = next((values for values in evaluated if "baselines" in values), evaluated[0])
    references = references_of(metrics)
    samples = draw_samples(rows)
    tested = test_differences(systems)
    warnings = [*ngram_warnings(models, references), *run_warnings(systems, failures)]
    verdicts: list[dict[str, Any]] = []
    return {
        "format": FORMAT,
        "command": " && ".join(grid.commands),
        "environment": next((system.evaluated.environment for system in systems if system.evaluated.environment), {}),
        "split": SPLIT,
        "fingerprint": metrics["fingerprint"],
        "dialogues": metrics["dialogues"],
        "examples": metrics["examples"],
        "seconds": sum(run["seconds"] or 0.0 for model in models for run in model["runs"]),
        "verdict": "",
        "verdicts": verdicts,
        "warnings": warnings,
        "models": models,
        "references": references,
        "parity": parity([system.evaluated for system in systems]),
        "differences": tested,
        "statistics": {
            "level": LEVEL,
            "resamples": RESAMPLES,
            "seeds": {system.name: len(system.measured_runs) for system in systems},
        },
        "crossings": crossings(models),
        "history": history(systems),
        "breakdown": breakdown({system.name: system.evaluations for system in systems}, *properties(systems)),
        "calibration": calibrations(systems),
        "samples": samples,
        "disagreements": disagreements(rows),
        "attention": attention(systems, select_sample(samples)),
        "rating": rating_pairs(rows),
    }


def models_of(systems: Sequence[System]) -> list[dict[str, Any]]:
    """Return "models", with their cost."""
    models = [system.evaluated.model for system in systems]
    times = seconds_to_common_value(models)
    for system, model, seconds in zip(systems, models, times, strict=True):
        folders = [run.folder for run in system.runs if (run.folder / "metrics.jsonl").is_file()]
        model["cost"] = cost(folders, system.evaluations, seconds)
    return models


def run_warnings(systems: Sequence[System], failures: Mapping[str, str]) -> list[str]:
    """Return a sentence for each contender with diverged runs, and for the runs that failed."""
    sentences = []
    for system in systems:
        diverged = [run.entry["seed"] for run in system.runs if run.entry["diverged"]]
        if diverged:
            seeds = ", ".join(map(str, diverged))
            sentences.append(f"{system.name}: {len(diverged)} of {len(system.runs)} runs diverged (seed {seeds}).")
    return sentences + [f"{name} failed and is missing: {message}" for name, message in failures.items()]


# ------------------------------------------------------------------ statistics


def test_differences(systems: Sequence[System]) -> list[dict[str, Any]]:
    """Return "differences": all pairs of contenders, on all, clean and leaked dialogues."""
    measured = [run.measured for system in systems for run in system.measured_runs if run.measured is not None]
    leaked = next((one.leaked for one in measured if one.leaked is not None), None)
    everything = np.ones(len(measured[0].rows), dtype=bool)
    subsets = {"all": everything} if leaked is None else {"all": everything, "clean": ~leaked, "leaked": leaked}
    contenders = [
        SystemRuns(system.name, [run_metrics(run.measured) for run in system.measured_runs if run.measured])
        for system in systems
    ]
    names = {key for contender in contenders for run in contender.runs for key in run}
    better: dict[str, Better] = {key: metric_display(key).better for key in sorted(names)}
    tested = {key: direction for key, direction in better.items() if direction and key not in REDUNDANT}
    records = differences(contenders, tested, subsets, level=LEVEL, resamples=RESAMPLES)
    return [{**asdict(record), "interval": list(record.interval)} for record in records]


def run_metrics(measured: Measured) -> dict[str, RunMetric]:
    """Return the metrics of a run by dialogue."""
    measurement, dialogues = measured.measurement, measured.dialogues
    metrics: dict[str, RunMetric] = {
        key: Sums(statistics, dialogues, measurement.additive[key].value)
        for key, statistics in measurement.statistics().items()
    }
    for key, items in measurement.items().items():
        metrics[key] = Counts(items.hashes, items.sizes, dialogues, measurement.counted[key].value)
    return metrics


# ------------------------------------------------------------------ models


def history(systems: Sequence[System]) -> dict[str, Any]:
    """Return "history" from the runs of all recipes; a failure is logged and leaves the section empty."""
    trained = [system for system in systems if system.contender.kind != "responses"]
    histories: dict[str, list[dict[str, Any]]] = {}
    try:
        for system in trained:
            for finished in system.measured_runs:
                if finished.evaluation is not None:
                    run = load(finished.folder, trust=True)
                    measured = measure_history(run, finished.evaluation, sample_of(run, SPLIT))
                    histories.setdefault(system.name, []).append(measured)
    except Exception as error:  # the other results do not depend on it
        log.warning("use of the history: not measured (%s: %s)", type(error).__name__, error)
        histories = {}
    return history_results(histories)


def properties(systems: Sequence[System]) -> tuple[Mapping[str, int] | None, Mapping[str, str]]:
    """Return what the breakdown needs besides responses: word counts of train, and dialogue acts; from any recipe."""
    recipe = next((system.evaluated.recipe for system in systems if system.evaluated.recipe is not None), None)
    return (None, {}) if recipe is None else example_properties(recipe, SPLIT)


def calibrations(systems: Sequence[System]) -> dict[str, Any]:
    """Return "calibration": error and reliability diagram over all evaluated runs of each contender."""
    pools: dict[str, Any] = {}
    for system in systems:
        metrics = [run.entry["metrics"] for run in system.runs if "calibration" in run.entry["metrics"]]
        if metrics:
            bins = [{"error": values["calibration_error"], **values["calibration"]} for values in metrics]
            pools[system.name] = pooled(bins)
    return pools


def attention(systems: Sequence[System], sample: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a cross-attention map of the first evaluated run of each recipe on one sample."""
    maps = []
    for system, response in zip(systems, sample["responses"], strict=True):
        run = system.load_first()
        if run is not None:
            metrics = system.measured_runs[0].entry["metrics"]
            maps.append(attention_map(run, system.name, metrics, sample["context"], response))
    return [entry for entry in maps if entry is not None]
