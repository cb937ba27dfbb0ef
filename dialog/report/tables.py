"""Tables of a comparison: results.json in, cells of text out, for HTML, Markdown and terminal."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dialog.report.measures import (
    MetricDisplay,
    count,
    duration,
    general,
    lossy_mark,
    metric_display,
    metric_value,
    sort_metrics,
)
from dialog.report.terminal import truncate

Results = Mapping[str, Any]
"""Content of results.json."""

NONE = "–"


class ReportCell(NamedTuple):
    """Text and its mark: the best value of its row, or the verdict on a setting."""

    text: str
    mark: Literal["", "best", "equal", "differs", "broken"] = ""


class ReportTable(NamedTuple):
    """Groups of rows; the first cell of a row is its heading."""

    head: tuple[str, ...]
    groups: tuple[tuple[tuple[ReportCell, ...], ...], ...]

    @property
    def rows(self) -> tuple[tuple[ReportCell, ...], ...]:
        """Rows of all groups."""
        return tuple(row for group in self.groups for row in group)


def summary(results: Results) -> ReportTable:
    """Return quality and cost: one row per metric, one column per model (mean ± std over seeds) and baseline."""
    models, baselines = results["models"], baselines_of(results)
    quality = tuple(_metric_row(name, models, baselines) for name in metric_names(results))
    padding = (ReportCell(""),) * len(baselines)
    cost = tuple(
        (ReportCell(label), *(ReportCell(text) for text in texts), *padding)
        for label, texts in (
            ("Parameters", [count(model["parameters"]["total"]) for model in models]),
            ("… in embeddings", [count(model["parameters"]["embeddings"]) for model in models]),
            ("… in other layers", [count(model["parameters"]["rest"]) for model in models]),
            ("Training time", [_cost(model, "seconds", duration) for model in models]),
            ("Target tokens seen", [_cost(model, "target_tokens", count) for model in models]),
            ("Optimizer steps", [_cost(model, "steps", count) for model in models]),
            ("Seeds", [str(len(model["runs"])) for model in models]),
        )
    )
    return ReportTable(("", *(model["name"] for model in models), *baselines), (quality, cost))


def parity(results: Results) -> ReportTable:
    """Return one row per setting: its value for each model, and whether it is equal, differs, or breaks parity."""
    rows = tuple(
        (*map(ReportCell, (str(row["what"]), *map(_setting_text, row["values"]))), _parity_verdict(row))
        for row in results.get("parity", ())
    )
    return ReportTable(("", *(model["name"] for model in results["models"]), "parity"), (rows,))


def runs(results: Results) -> ReportTable:
    """Return one row per run: seed, cost, lowest validation bits per byte, and the first two metrics."""
    names = metric_names(results)[:2]
    head = ("Model", "Seed", "Time", "Steps", "Target tokens", "Best validation")
    groups = tuple(tuple(_run_row(model, run, names) for run in model["runs"]) for model in results["models"])
    return ReportTable((*head, *(metric_display(name).label for name in names), "Folder"), groups)


def metric_names(results: Results) -> list[str]:
    """Return the metrics of all models, in display order."""
    return sort_metrics({name for model in results["models"] for name in model["summary"]})


def baselines_of(results: Results) -> Mapping[str, Mapping[str, Any]]:
    """Return the baselines (human, random, ...) of the first run that has them; they depend on no model."""
    runs_baselines = (run["metrics"].get("baselines") for model in results["models"] for run in model["runs"])
    return next((baselines for baselines in runs_baselines if baselines), {})


def _metric_row(name: str, models: Sequence[Any], baselines: Mapping[str, Mapping[str, Any]]) -> tuple[ReportCell, ...]:
    metric = metric_display(name)
    summaries = [model["summary"].get(name) for model in models]
    texts = [NONE if entry is None else _mean_std(entry["mean"], entry["std"], metric.format) for entry in summaries]
    marks = [max((lossy_mark(name, run["metrics"]) for run in model["runs"]), default="") for model in models]
    best = _best_index(metric, [None if entry is None else entry["mean"] for entry in summaries])
    cells = [
        ReportCell(text + mark, "best" if index == best else "")
        for index, (text, mark) in enumerate(zip(texts, marks, strict=True))
    ]
    values = [metric_value(baseline.get(name)) for baseline in baselines.values()]
    arrow = {"lower": " ↓", "higher": " ↑", None: ""}[metric.better]
    baseline_cells = (ReportCell(NONE if value is None else metric.format(value)) for value in values)
    return ReportCell(metric.label + arrow), *cells, *baseline_cells


def _best_index(metric: MetricDisplay, means: Sequence[float | None]) -> int | None:
    """Return the index of the best mean; None if no direction is better or two formatted means are equal."""
    finite = [mean for mean in means if mean is not None and math.isfinite(mean)]
    if metric.better is None or len(finite) < 2:
        return None
    best = min(finite) if metric.better == "lower" else max(finite)
    ties = [mean for mean in finite if metric.format(mean) == metric.format(best)]
    return means.index(best) if len(ties) == 1 else None


def _mean_std(mean: float | None, std: float | None, to_text: Callable[[float], str]) -> str:
    if mean is None:
        return NONE
    if std is None:
        return to_text(mean)
    if to_text(mean).endswith(" %"):
        return f"{to_text(mean).removesuffix(' %')} ± {to_text(std)}"
    return f"{to_text(mean)} ± {to_text(std)}"


def _cost(model: Mapping[str, Any], key: str, to_text: Callable[[float], str]) -> str:
    """Return mean ± std over runs, without a std that is invisible in this format."""
    values = [run[key] for run in model["runs"]]
    if not values:
        return NONE
    mean = math.fsum(values) / len(values)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1))
    return to_text(mean) if to_text(mean + std) == to_text(mean) else f"{to_text(mean)} ± {to_text(std)}"


def _parity_verdict(row: Mapping[str, Any]) -> ReportCell:
    if row["equal"]:
        return ReportCell("✓ equal", "equal")
    if row["must"]:
        return ReportCell("✗ must be equal", "broken")
    return ReportCell("differs" + _relative_difference(row["values"]), "differs")


def _relative_difference(values: Sequence[object]) -> str:
    """Return max / min - 1 in percent; empty unless all values are positive numbers."""
    numbers = [value for value in values if isinstance(value, int | float) and value > 0]
    return f" by {100 * (max(numbers) / min(numbers) - 1):.1f} %" if len(numbers) == len(values) else ""


def _run_row(model: Mapping[str, Any], run: Mapping[str, Any], names: Sequence[str]) -> tuple[ReportCell, ...]:
    curve = [
        point["validation/bits_per_byte"] for point in run["curve"] if point["validation/bits_per_byte"] is not None
    ]
    scores = [(metric_display(name), metric_value(run["metrics"].get(name))) for name in names]
    texts = (
        *(model["name"], str(run["seed"]), duration(run["seconds"]), count(run["steps"]), count(run["target_tokens"])),
        metric_display("bits_per_byte").format(min(curve)) if curve else NONE,
        *(NONE if value is None else metric.format(value) for metric, value in scores),
        run["folder"],
    )
    return tuple(ReportCell(text) for text in texts)


def _setting_text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return truncate(str(value), 72)
    return count(value) if isinstance(value, int) else general(value)
