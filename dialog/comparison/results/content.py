"""Analyse the finished runs of a comparison: the content of results.json."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from dialog.comparison.breakdown import breakdown, example_properties
from dialog.comparison.cost import cost, seconds_to_common_value
from dialog.comparison.curves import crossings
from dialog.comparison.decisions.looks import read_looks
from dialog.comparison.grid.folder import SPLIT, Grid
from dialog.comparison.grid.tuning import tuning_results
from dialog.comparison.parity import parity
from dialog.comparison.references import ngram_warnings, references_of
from dialog.comparison.results.samples import SHARED, disagreements, draw_samples
from dialog.comparison.results.systems import System
from dialog.comparison.statistics.section import DecisionPlan, statistics_section
from dialog.comparison.statistics.verdict import EvaluationSet, listed
from dialog.metrics.measurement import FAILED
from dialog.report.formats.results import (
    VERSION,
    AttentionResults,
    AttentionStatistics,
    Calibration,
    CalibrationBin,
    ContextUse,
    ModelResults,
    Results,
    ShownExample,
)
from dialog.runs.folder import METRICS
from dialog.training.checkpoints.manifest import MANIFEST

if TYPE_CHECKING:
    from dialog.data.dialogue import Example

MOST_EMPTY = 0.1
"""Share of empty responses of a contender above which a warning names it."""
log = logging.getLogger("dialog")


def results_of(grid: Grid, systems: Sequence[System], failures: Mapping[str, str]) -> Results:
    """Return the content of results.json.

    Args:
        grid: Contenders and seeds.
        systems: Contenders with a finished run; at least two of them have an evaluated run.
        failures: Messages of failed runs, by name.
    """
    models = models_of(systems)
    measured = [system for system in systems if system.measured_runs]
    evaluated = [system.measured_runs[0].entry.metrics for system in measured]
    metrics = next((values for values in evaluated if "baselines" in values), evaluated[0])
    references = references_of(metrics)
    rows = rows_of(systems)
    samples = draw_samples(rows)
    differing = disagreements(rows)
    runs = {
        system.name: [run.measured for run in system.runs if run.measured is not None]
        for system in measured
    }
    files = [system.name for system in systems if system.contender.kind == "responses"]
    recipes = [system.evaluated.recipe for system in systems if system.evaluated.recipe]
    test_set = EvaluationSet(
        recipes[0].data.corpus["name"] if recipes else "",
        SPLIT,
        metrics["examples"],
        metrics["dialogues"],
        # without a corpus or dialogue ids, each response is a dialogue
        grouped=bool(recipes) or any("dialogue_id" in row for row in rows[0]),
    )
    section = statistics_section(
        runs,
        DecisionPlan(grid.primary, grid.looks, read_looks(grid.folder)),
        {system.name: [run.entry.seed for run in system.measured_runs] for system in measured},
        test_set=test_set,
        diverged=numbers_diverged(systems),
        files=files,
        missing=missing_runs(grid, systems),
    )
    context_use, attention = network_sections(systems, samples)
    tuning = tuning_results(grid)
    spent = [
        *(run.seconds for model in models for run in model.runs),
        *(trial.seconds for trial in tuning if not trial.chosen),
    ]
    untested = [system for system in systems if not system.measured_runs]
    return Results(
        version=VERSION,
        command=" && ".join(grid.commands),
        environment=next(
            (system.evaluated.environment for system in systems if system.evaluated.environment), {}
        ),
        split=SPLIT,
        fingerprint=metrics["fingerprint"],
        dialogues=metrics["dialogues"],
        examples=metrics["examples"],
        seconds=sum(seconds or 0.0 for seconds in spent),
        warnings=(
            *ngram_warnings(models, references),
            *run_warnings(systems, failures),
            *metric_warnings(systems),
            *clock_warnings(systems),
            *empty_warnings(systems),
            *unverified_warnings(systems),
        ),
        models=models,
        tuning=tuning,
        references=references,
        parity=parity([system.evaluated for system in systems]),
        primary=section.primary,
        looks=section.looks,
        verdict="\n".join(filter(None, [section.verdict, *run_warnings(untested, {})])),
        ranking=section.ranking,
        differences=section.differences,
        statistics=section.statistics,
        crossings=crossings(models),
        context_use=context_use,
        breakdown=breakdown(
            runs,
            *(example_properties(recipes[0], SPLIT) if recipes else (None, {})),
        ),
        calibration=calibrations(measured),
        samples=samples,
        disagreements=differing,
        attention=attention,
    )


def missing_runs(grid: Grid, systems: Sequence[System]) -> list[str]:
    """Return the contenders that lack a finished run."""
    planned = Counter(cell.contender.name for cell in grid.cells() if not cell.trial)
    return [system.name for system in systems if len(system.runs) < planned[system.name]]


def rows_of(systems: Sequence[System]) -> list[Sequence[Mapping[str, Any]]]:
    """Return the lines of responses.jsonl of the first evaluated run of each contender; empty
    responses without one.
    """
    first = [
        next((run.measured.rows for run in system.runs if run.measured is not None), None)
        for system in systems
    ]
    answered = next(rows for rows in first if rows is not None)
    blank = [{**{field: row[field] for field in SHARED}, "response": ""} for row in answered]
    return [blank if rows is None else rows for rows in first]


def numbers_diverged(systems: Sequence[System]) -> dict[str, tuple[int, int]]:
    """Return the number of diverged runs, and of all runs, of each contender with a diverged
    run.
    """
    counts = {
        system.name: (sum(run.entry.diverged for run in system.runs), len(system.runs))
        for system in systems
    }
    return {name: numbers for name, numbers in counts.items() if numbers[0]}


def models_of(systems: Sequence[System]) -> tuple[ModelResults, ...]:
    """Return the contenders with their cost."""
    models = [system.evaluated.model for system in systems]
    times = seconds_to_common_value(models)
    folders = [
        [run.folder for run in system.runs if (run.folder / METRICS).is_file()]
        for system in systems
    ]
    return tuple(
        replace(model, cost=cost(trained, system.evaluations, seconds))
        for system, model, trained, seconds in zip(systems, models, folders, times, strict=True)
    )


def run_warnings(systems: Sequence[System], failures: Mapping[str, str]) -> list[str]:
    """Return a sentence for each contender with diverged runs, and for the runs that failed."""
    sentences = []
    for system in systems:
        diverged = [run for run in system.runs if run.entry.diverged]
        if diverged:
            seeds = ", ".join(str(run.entry.seed) for run in diverged)
            lost = sum(run.measured is None for run in diverged)
            before = (
                f", {lost} of them before the first validation, without results" if lost else ""
            )
            sentences.append(
                f"{system.name}: {len(diverged)} of {len(system.runs)} runs diverged (seed"
                f" {seeds}){before}."
            )
    return sentences + [
        f"{name} failed and is missing: {message}" for name, message in failures.items()
    ]


def metric_warnings(systems: Sequence[System]) -> list[str]:
    """Return a sentence for each metric that failed in an evaluation, with the reason and the
    contenders.
    """
    names: dict[str, list[str]] = {}
    for system in systems:
        sentences: dict[str, None] = {}  # in order
        for run in system.measured_runs:
            for key, text in run.entry.metrics.get("left_out", {}).items():
                if text.startswith(FAILED):
                    sentences[f"{key} {text}"] = None
        for sentence in sentences:
            names.setdefault(sentence, []).append(system.name)
    return [
        f"{sentence}; it is left out for {', '.join(affected)}."
        for sentence, affected in names.items()
    ]


def clock_warnings(systems: Sequence[System]) -> list[str]:
    """Return a sentence for each contender whose training the clock ended: how fast the machine
    happened to be then decides the comparison too.
    """
    sentences = []
    for system in systems:
        recipe = system.evaluated.recipe
        if recipe is None or recipe.trainer.max_time is None:
            continue
        from dialog.training.callbacks.stopping import duration_of

        limit = duration_of(recipe.trainer.max_time).total_seconds()
        ended = sum((run.entry.seconds or 0.0) >= limit for run in system.runs)
        if ended:
            sentences.append(
                f"{system.name}: the time limit ended {ended} of {len(system.runs)} trainings, so"
                " the speed and load of the machine are compared too; trainer.max_time=null lifts"
                " it."
            )
    return sentences


def empty_warnings(systems: Sequence[System]) -> list[str]:
    """Return a sentence for each contender with more than `MOST_EMPTY` empty responses."""
    sentences = []
    for system in systems:
        measured = [run.measured for run in system.runs if run.measured is not None]
        responses = [row["response"] for one in measured for row in one.rows]
        empty = sum(not response.strip() for response in responses)
        if empty > MOST_EMPTY * len(responses):
            sentences.append(f"{system.name}: {empty:,} of {len(responses):,} responses are empty.")
    return sentences


def unverified_warnings(systems: Sequence[System]) -> list[str]:
    """Return a sentence on the contenders that have an evaluation without a manifest."""
    names = [
        system.name
        for system in systems
        if any(run.entry.verified is False for run in system.measured_runs)
    ]
    reason = f"an evaluation has no {MANIFEST} to check its figures with; evaluate the run again"
    return [f"{listed(names)}: not verified, since {reason}."] if names else []


# ------------------------------------------------------------------ models


class NetworkSection:
    """Entries of a section that no other depends on; a failure is logged and leaves it empty."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.failed = False
        self.entries: list[Any] = []

    @contextmanager
    def guarded(self) -> Iterator[None]:
        """Run a body that adds entries."""
        try:
            yield
        except Exception as error:
            if not self.failed:
                log.warning("%s: not measured (%s: %s)", self.name, type(error).__name__, error)
                log.debug("where:", exc_info=True)
            self.failed = True
        if self.failed:
            self.entries = []


def network_sections(
    systems: Sequence[System], samples: Sequence[ShownExample]
) -> tuple[ContextUse, AttentionResults]:
    """Return use of the context and attention from the evaluated runs of all recipes, each of which
    is loaded once.
    """
    if all(system.contender.kind == "responses" for system in systems):
        return ContextUse(), AttentionResults()
    from dialog.comparison.context_use import context_results, measure_context_use, sample_of
    from dialog.comparison.results.attention import (
        attention_examples,
        choose_examples,
        examples_of,
        readings_of,
        statistics_rows,
    )
    from dialog.runs.load import load

    context = NetworkSection("use of the context")
    maps = NetworkSection("attention")
    statistics = NetworkSection("attention statistics")
    chosen = choose_examples(samples)
    for system in systems:
        if system.contender.kind == "responses":
            continue
        sample: list[Example] = []
        examples: list[Example] = []
        for rank, finished in enumerate(system.measured_runs):
            folder = finished.evaluation
            if folder is None:
                continue
            run = cache(partial(load, finished.folder, trust=system.contender.trust))
            seed = finished.entry.seed
            with context.guarded():
                sample = sample or sample_of(run(), SPLIT)
                measured = measure_context_use(run(), folder, sample, finished.cell.check_named)
                context.entries.append((system.name, measured))
            with maps.guarded():
                examples = examples or examples_of(run(), [sample.id for sample in chosen])
                labels = {"model": system.name, "seed": seed}
                maps.entries += readings_of(run(), labels, rank, examples)
            with statistics.guarded():
                if rows := statistics_rows(run(), finished, folder):
                    statistics.entries.append(AttentionStatistics(system.name, seed, rows))
    by_name: dict[str, list[Mapping[str, Any]]] = {}
    for name, entry in context.entries:
        by_name.setdefault(name, []).append(entry)
    attention = AttentionResults(
        attention_examples(chosen, maps.entries), tuple(statistics.entries)
    )
    return context_results(by_name), attention


def calibrations(systems: Sequence[System]) -> dict[str, Calibration]:
    """Return error and reliability diagram over all evaluated runs of each contender."""
    pools = {}
    for system in systems:
        metrics = [run.entry.metrics for run in system.runs if "calibration" in run.entry.metrics]
        if metrics:
            bins = [
                {"error": values["calibration_error"], **values["calibration"]}
                for values in metrics
            ]
            from dialog.analysis.calibration import pooled

            pool = pooled(bins)
            pools[system.name] = Calibration(
                pool["error"], tuple(CalibrationBin(**one) for one in pool["bins"])
            )
    return pools
