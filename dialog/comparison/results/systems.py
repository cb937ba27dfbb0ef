"""The contenders of a finished grid with their runs, as plain data for results.json."""

from __future__ import annotations

import copy
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dialog.analysis.measured import Measured, example_bytes, read_measured
from dialog.comparison.grid.folder import SPLIT, Cell, Contender, check_same_conditions, is_diverged
from dialog.comparison.grid.metrics import trust_of_metrics
from dialog.comparison.grid.responses import file_metrics
from dialog.comparison.grid.test_set import examples_of
from dialog.comparison.grid.work import Work
from dialog.comparison.parity import EvaluatedSystem
from dialog.comparison.statistics.section import subset_masks
from dialog.comparison.systems.answers import SYSTEM
from dialog.config.schema import Recipe
from dialog.json_files import read_json, read_json_lines
from dialog.report.formats.metrics import metric_value
from dialog.report.formats.results import CurvePoint, ModelResults, RunResults, SeedMean
from dialog.runs.evaluation.evaluated import check_evaluation, hashes_of
from dialog.runs.folder import ENVIRONMENT, METRICS, WEIGHTS, read_recipe, read_summary

if TYPE_CHECKING:
    from dialog.data.dialogue import Example
    from dialog.runs.run import Run

COUNTS = (
    *("examples", "dialogues", "nll_nats", "tokens", "words", "bytes"),
    *("unknown_ratio", "questions", "copied_tokens"),
)
"""Metrics that describe the test set, not the model."""


def learning_curve(folder: Path) -> tuple[CurvePoint, ...]:
    """Read the learning curve of a run from its metrics.jsonl.

    Target tokens at a step without a log of them are interpolated between steps.

    Raises:
        UserError: the file is missing or damaged.
    """
    lines = list(read_json_lines(folder / "metrics.jsonl", "step", "epoch", "time"))
    counts = {0: 0.0} | {
        line["step"]: line["train/tokens"] for line in lines if "train/tokens" in line
    }
    if (summary := read_summary(folder)) is not None:
        counts[summary.steps] = summary.target_tokens
    points = []
    for line in lines:
        losses = {key: line.get(key) for key in ("train/loss", "validation/bits_per_byte")}
        if losses.keys() & line.keys():
            tokens = round(float(np.interp(line["step"], list(counts), list(counts.values()))))
            points.append(
                CurvePoint(line["step"], line["epoch"], tokens, line["time"], *losses.values())
            )
    return tuple(points)


def summarize(runs: Sequence[Mapping[str, Any]]) -> dict[str, SeedMean]:
    """Return mean, sample standard deviation and count over runs of every scalar metric except
    `COUNTS`.

    Args:
        runs: Content of metrics.json, or one of its subsets, for each run.
    """
    summary = {}
    for name in dict.fromkeys(name for metrics in runs for name in metrics):
        candidates = [metric_value(metrics.get(name)) for metrics in runs]
        values = [value for value in candidates if value is not None]
        if not values or name in COUNTS:
            continue
        std = statistics.stdev(values) if len(values) > 1 else None
        summary[name] = SeedMean(statistics.fmean(values), std, len(values))
    return summary


STATE_CONTEXTS = (100, 1000)
"""Lengths of contexts, in tokens, after which the state of generation is measured."""

SUBSETS = ("all", "clean", "leaked")


class FinishedRun(NamedTuple):
    """A run, and its evaluation if it has one."""

    cell: Cell
    entry: RunResults
    evaluation: Path | None
    measured: Measured | None

    @property
    def folder(self) -> Path:
        """Run folder."""
        return self.cell.folder


class System(NamedTuple):
    """A contender with its finished runs."""

    contender: Contender
    evaluated: EvaluatedSystem
    runs: list[FinishedRun]

    @property
    def name(self) -> str:
        """Name of the contender."""
        return self.contender.name

    @property
    def measured_runs(self) -> list[FinishedRun]:
        """Runs with an evaluation."""
        return [run for run in self.runs if run.measured is not None]

    @property
    def evaluations(self) -> list[Path]:
        """Folders of the evaluations."""
        return [run.evaluation for run in self.runs if run.evaluation is not None]


def finished_systems(work: Work) -> list[System]:
    """Return the contenders that have a finished run, evaluated or diverged.

    Raises:
        UserError: the runs of a contender were trained on different data or numbers of devices.
    """
    finished: dict[str, list[Cell]] = {}
    for cell in work.cells:
        if not cell.trial and work.is_finished(cell):
            finished.setdefault(cell.contender.name, []).append(cell)
    systems = []
    for contender in work.grid.contenders:
        runs = [finished_run(cell, work) for cell in finished.get(contender.name, [])]
        check_same_conditions([run.folder for run in runs if contender.kind != "responses"])
        if runs:
            systems.append(finished_system(contender, runs))
    return systems


def finished_run(cell: Cell, work: Work) -> FinishedRun:
    """Read a run and its evaluation.

    Raises:
        UserError: a file of the evaluation has changed since it was written.
    """
    root = work.grid.folder
    folder = cell.folder
    evaluated = work.evaluation(cell)
    trained = cell.contender.kind != "responses"
    curve = learning_curve(folder) if trained and (folder / METRICS).is_file() else ()
    last = curve[-1] if curve else CurvePoint(0, 0, 0, 0.0)
    summary = read_summary(folder)
    verified = check_evaluation(evaluated.folder) if evaluated else None
    trust = cell.contender.trust if trained else trust_of_metrics(file_metrics(work.grid))
    measured = read_measured(evaluated.folder, trust=trust) if evaluated else None
    entry = RunResults(
        cell.seed,
        str(folder.relative_to(root) if folder.is_relative_to(root) else folder.resolve()),
        str(evaluated.folder.relative_to(folder)) if evaluated else "",
        steps=summary.steps if summary else last.step if trained else None,
        seconds=summary.seconds if summary else last.seconds if trained else None,
        target_tokens=summary.target_tokens if summary else last.target_tokens if trained else None,
        diverged=is_diverged(folder),
        metrics=with_values(evaluated.metrics, measured) if evaluated and measured else {},
        hashes=hashes_of(evaluated.folder) if evaluated else {},
        verified=verified,
        curve=curve,
    )
    return FinishedRun(cell, entry, evaluated.folder if evaluated else None, measured)


def with_values(metrics: Mapping[str, Any], measured: Measured) -> dict[str, Any]:
    """Return a metrics.json with the values of the statistics of the responses, from which
    differences are computed.

    A metric that is undefined according to the statistics is absent.
    """
    measurement = measured.measurement
    names = measurement.statistics().keys() | measurement.items().keys()
    values = {
        subset: measurement.values_of(examples)
        for subset, examples in subset_masks(measured).items()
        if examples.any()
    }
    whole = {**_replaced(metrics, names, values.pop("all")), "fingerprint": measured.fingerprint}
    subsets = metrics.get("subsets", {})
    parts = {
        subset: _replaced(subsets.get(subset, {}), names, own) for subset, own in values.items()
    }
    return {**whole, "subsets": {**subsets, **parts}} if parts else whole


def _replaced(
    metrics: Mapping[str, Any], names: Collection[str], values: Mapping[str, float]
) -> dict[str, Any]:
    """Return metrics with other values of some; a metric with a score and a signature keeps the
    signature.
    """
    replaced = {
        name: value for name, value in metrics.items() if name not in names or name in values
    }
    for name, value in values.items():
        before = metrics.get(name)
        replaced[name] = {**before, "score": value} if isinstance(before, Mapping) else value
    return replaced


def finished_system(contender: Contender, runs: list[FinishedRun]) -> System:
    """Return a contender with its runs; the cost is added when all contenders are known."""
    entries = tuple(run.entry for run in runs)
    model = ModelResults(contender.name, contender.kind, runs=entries, summary=summaries(runs))
    measured = next((entry.metrics for entry in entries if entry.metrics), {})
    if contender.kind == "responses":
        model = replace(model, system=description(contender, runs))
        evaluated = EvaluatedSystem(None, {}, model, measured, contender.stated)
        return System(contender, evaluated, runs)
    from dialog.comparison.context_use import sample_of
    from dialog.models.seq2seq import count_parameters
    from dialog.runs.load import load, load_initial

    trained = next((run for run in runs if (run.folder / WEIGHTS).is_file()), None)
    run = (
        load(trained.folder, trust=contender.trust)
        if trained
        else load_initial(runs[0].folder, trust=contender.trust)
    )
    recipe = read_recipe(run.folder, trust=contender.trust)  # with the precision of the machine
    environment = read_json(run.folder / ENVIRONMENT)
    model = replace(
        model,
        tokenizer=environment.get("tokenizer"),
        parameters=count_parameters(run.model),
        flops_per_target_token=flops_per_target_token(run, sample_of(run, SPLIT)),
        state_bytes=state_sizes(run),
        trials=recipe.about.trials,
    )
    return System(
        contender,
        EvaluatedSystem(recipe, environment, model, measured or test_set_of(recipe)),
        runs,
    )


def description(contender: Contender, runs: Sequence[FinishedRun]) -> Mapping[str, Any] | None:
    """Return the command of a contender that is a program, and what answered; None for files."""
    path = runs[0].folder / SYSTEM
    return read_json(path) if contender.system and path.is_file() else None


def test_set_of(recipe: Recipe) -> dict[str, Any]:
    """Return fingerprint and number of examples of a test set, as evaluations record them."""
    rows = list(examples_of(recipe, SPLIT))
    return {
        "fingerprint": sha256(b"".join(map(example_bytes, rows))).hexdigest(),
        "examples": len(rows),
    }


def summaries(runs: list[FinishedRun]) -> dict[str, dict[str, SeedMean]]:
    """Return mean, standard deviation and number of each metric over the evaluated runs, by subset
    of the test set.
    """
    metrics = [run.entry.metrics for run in runs if run.measured is not None]
    parts = {
        "all": metrics,
        **{
            subset: [values.get("subsets", {}).get(subset, {}) for values in metrics]
            for subset in SUBSETS[1:]
        },
    }
    return {subset: summarize(values) if any(values) else {} for subset, values in parts.items()}


def state_sizes(run: Run) -> dict[str, int | None]:
    """Return the bytes that generation keeps for contexts of `STATE_CONTEXTS` tokens."""
    from dialog.analysis.flops import state_bytes

    network = copy.deepcopy(run.model).cpu().eval()
    return {str(length): state_bytes(network, length) for length in STATE_CONTEXTS}


def flops_per_target_token(run: Run, sample: Sequence[Example]) -> float:
    """Return the FLOPs of training, forward and backward, per real target token.

    They are those of an example with the mean lengths, in tokens of the run's tokenizer, of a
    sample of the test set; encoding the context is included.
    """
    from dialog.analysis.flops import training_flops

    responder = run.responder
    pairs = responder.encode_batch(sample)
    sources, targets = (round(fmean(map(len, side))) for side in zip(*pairs, strict=True))
    tokens = targets - 1  # without the begin token
    return training_flops(copy.deepcopy(run.model).cpu().eval(), sources, tokens) / tokens
