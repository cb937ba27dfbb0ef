"""Data behind the figures of a paper, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from dialog.report.formats.results import ContextChange, Results

Rows = Iterator[Sequence[Any]]


def figure_data(title: str, results: Results) -> dict[str, list[Sequence[Any]]]:
    """Return the tables behind the figures of a section by the name of their file, each with its
    head.

    Raises:
        KeyError: a section without a table.
    """
    tables = {name: [*rows(results)] for name, rows in TABLES[title].items()}
    return {name: rows for name, rows in tables.items() if len(rows) > 1}


def _differences(results: Results) -> Rows:
    yield ("metric", "subset", "a", "b", "difference", "low", "high", "p", "p_corrected", "decided")
    for entry in results.differences:
        low, high = entry.interval or (None, None)
        names = (entry.metric, entry.subset, entry.a, entry.b)
        p_values = (entry.p, entry.p_holm)
        yield (*names, entry.difference, low, high, *p_values, entry.decided)


def _ranking(results: Results) -> Rows:
    yield ("metric", "system", "mean", "groups")
    for metric, entries in results.ranking.items():
        for entry in entries:
            yield (metric, entry.name, entry.mean, entry.groups)


def _curves(results: Results) -> Rows:
    cost_head = ("target_tokens", "seconds", "flops")
    yield ("system", "seed", "step", *cost_head, "validation_bits_per_byte")
    for model in results.models:
        flops = model.flops_per_target_token
        for run in model.runs:
            for point in () if run.diverged else run.validations:
                spent = point.target_tokens * flops if flops else None
                cost = (point.target_tokens, point.seconds, spent)
                yield (model.name, run.seed, point.step, *cost, point.bits_per_byte)


def _context_use(results: Results) -> Rows:
    yield ("change", "system", "increase_bits_per_byte", "low", "high")
    measured = results.context_use
    changes: dict[str, Mapping[str, ContextChange]] = {
        **{row.perturbation: row.values for row in measured.rows},
        **{f"turn dropped at {row.distance}": row.values for row in measured.distance},
    }
    for label, values in changes.items():
        for name, entry in values.items():
            low, high = entry.interval or (None, None)
            yield (label, name, entry.mean, low, high)


def _breakdown(results: Results) -> Rows:
    has_answers = any("answer_accuracy" in model.means() for model in results.models)
    accuracy = ("answer_accuracy",) if has_answers else ()
    yield ("by", "bucket", "examples", "system", "bits_per_byte", "f1", *accuracy)
    for part in results.breakdown:
        for bucket in part.buckets:
            for name in results.names:
                exact = bucket.exact.get(name)
                answers = (exact.mean if exact else None,) if has_answers else ()
                values = (bucket.values.get(name), bucket.f1.get(name))
                place = (part.by, bucket.label, bucket.examples, name)
                yield (*place, *values, *answers)


def _calibration(results: Results) -> Rows:
    yield ("system", "confidence", "accuracy", "tokens")
    for name, entry in results.calibration.items():
        for part in entry.bins:
            yield (name, part.confidence, part.accuracy, part.tokens)


def _attention(results: Results) -> Rows:
    yield ("system", "seed", "module", "statistic", "value")
    for run in results.attention.statistics:
        for row in run.rows:
            for name, value in row.items():
                if isinstance(value, int | float):
                    yield (run.model, run.seed, row["module"], name, value)


TABLES: Mapping[str, Mapping[str, Callable[[Results], Rows]]] = {
    "Differences": {"differences": _differences, "ranking": _ranking},
    "Learning curves": {"learning-curves": _curves},
    "Use of the context": {"use-of-the-context": _context_use},
    "Breakdown": {"breakdown": _breakdown},
    "Calibration": {"calibration": _calibration},
    "Attention statistics": {"attention-statistics": _attention},
}
"""By the title of the section of the report."""
