"""The tables of a comparison, the same for HTML, Markdown and the terminal: results.json in, cells of text out."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dialog.report.measures import Measure, count, duration, general, in_order, measure
from dialog.report.terminal import shortened

Results = Mapping[str, Any]
"""results.json as it was read."""

NONE = "–"


class Cell(NamedTuple):
    """Text, and what to make of it: the better one of its row, or how a setting compares."""

    text: str
    mark: Literal["", "best", "equal", "differs", "broken"] = ""


class Table(NamedTuple):
    """Rows of cells in groups; the first cell of a row is its heading."""

    head: tuple[str, ...]
    groups: tuple[tuple[tuple[Cell, ...], ...], ...]

    @property
    def rows(self) -> tuple[tuple[Cell, ...], ...]:
        """The rows of all groups."""
        return tuple(row for group in self.groups for row in group)


def summary(results: Results) -> Table:
    """Quality and cost: a row a metric, a column a model (mean ± standard deviation over seeds), then baselines."""
    models, baselines = results["models"], baselines_of(results)
    names = in_order({name for model in models for name in model["summary"]})
    quality = tuple(_quality(name, models, baselines) for name in names)
    padding = (Cell(""),) * len(baselines)
    cost = tuple(
        (Cell(label), *(Cell(text) for text in texts), *padding)
        for label, texts in (
            ("Parameters", [count(model["parameters"]["total"]) for model in models]),
            ("… in embeddings", [count(model["parameters"]["embeddings"]) for model in models]),
            ("… in all else", [count(model["parameters"]["rest"]) for model in models]),
            ("Training time", [_over_runs(model, "seconds", duration) for model in models]),
            ("Target tokens seen", [_over_runs(model, "target_tokens", count) for model in models]),
            ("Optimizer steps", [_over_runs(model, "steps", count) for model in models]),
            ("Seeds", [str(len(model["runs"])) for model in models]),
        )
    )
    return Table(("", *(model["name"] for model in models), *baselines), (quality, cost))


def parity(results: Results) -> Table:
    """What the models have in common and what not; a difference in what must be equal is called so."""
    rows = tuple(
        (Cell(str(row["what"])), *(Cell(_plain(value)) for value in row["values"]), _verdict(row))
        for row in results.get("parity", ())
    )
    return Table(("", *(model["name"] for model in results["models"]), "parity"), (rows,))


def runs(results: Results) -> Table:
    """A row a run: its seed, its cost, the lowest point of its learning curve, its scores."""
    models = results["models"]
    names = in_order({name for model in models for name in model["summary"]})[:2]
    head = ("Model", "Seed", "Time", "Steps", "Target tokens", "Best validation")
    groups = tuple(tuple(_run(model, run, names) for run in model["runs"]) for model in models)
    return Table((*head, *(measure(name).label for name in names), "Folder"), groups)


def baselines_of(results: Results) -> Mapping[str, Mapping[str, Any]]:
    """Reference rows (people, random responses, ...) of the first run that has them; they depend on no model."""
    found = (run["metrics"].get("baselines") for model in results["models"] for run in model["runs"])
    return next((baselines for baselines in found if baselines), {})


def score(value: Any) -> float | None:  # noqa: ANN401 - a number of JSON, or an object that holds it
    """A metric of metrics.json as one number: sacreBLEU's stands beside its signature."""
    number = value.get("score") if isinstance(value, Mapping) else value
    return number if isinstance(number, int | float) and not isinstance(number, bool) else None


def _quality(name: str, models: Sequence[Any], baselines: Mapping[str, Mapping[str, Any]]) -> tuple[Cell, ...]:
    known = measure(name)
    entries = [model["summary"].get(name) for model in models]
    texts = [NONE if entry is None else _spread(entry["mean"], entry["std"], known.write) for entry in entries]
    best = _best(known, [None if entry is None else entry["mean"] for entry in entries])
    cells = [Cell(text, "best" if index == best else "") for index, text in enumerate(texts)]
    others = [score(baseline.get(name)) for baseline in baselines.values()]
    arrow = {"lower": " ↓", "higher": " ↑", None: ""}[known.better]
    return Cell(known.label + arrow), *cells, *(Cell(NONE if value is None else known.write(value)) for value in others)


def _best(known: Measure, means: Sequence[float | None]) -> int | None:
    """Which mean is the better one, unless nothing says so or two of them read the same."""
    finite = [mean for mean in means if mean is not None and math.isfinite(mean)]
    if known.better is None or len(finite) < 2:
        return None
    best = min(finite) if known.better == "lower" else max(finite)
    alike = [mean for mean in finite if known.write(mean) == known.write(best)]
    return means.index(best) if len(alike) == 1 else None


def _spread(mean: float | None, std: float | None, write: Callable[[float], str]) -> str:
    if mean is None:
        return NONE
    if std is None:
        return write(mean)
    if write(mean).endswith(" %"):
        return f"{write(mean).removesuffix(' %')} ± {write(std)}"
    return f"{write(mean)} ± {write(std)}"


def _over_runs(model: Mapping[str, Any], key: str, write: Callable[[float], str]) -> str:
    values = [run[key] for run in model["runs"]]
    if not values:
        return NONE
    mean = math.fsum(values) / len(values)
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / max(len(values) - 1, 1))
    return write(mean) if write(mean + spread) == write(mean) else f"{write(mean)} ± {write(spread)}"


def _verdict(row: Mapping[str, Any]) -> Cell:
    if row["equal"]:
        return Cell("✓ equal", "equal")
    if row["must"]:
        return Cell("✗ must be equal", "broken")
    return Cell("differs" + _ratio(row["values"]), "differs")


def _ratio(values: Sequence[object]) -> str:
    """How many times the smallest number the largest is."""
    numbers = [value for value in values if isinstance(value, int | float) and value > 0]
    return f" by {100 * (max(numbers) / min(numbers) - 1):.1f} %" if len(numbers) == len(values) else ""


def _run(model: Mapping[str, Any], run: Mapping[str, Any], names: Sequence[str]) -> tuple[Cell, ...]:
    curve = [
        point["validation/bits_per_byte"] for point in run["curve"] if point["validation/bits_per_byte"] is not None
    ]
    scores = [(measure(name), score(run["metrics"].get(name))) for name in names]
    texts = (
        *(model["name"], str(run["seed"]), duration(run["seconds"]), count(run["steps"]), count(run["target_tokens"])),
        measure("bits_per_byte").write(min(curve)) if curve else NONE,
        *(NONE if value is None else known.write(value) for known, value in scores),
        run["folder"],
    )
    return tuple(Cell(text) for text in texts)


def _plain(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return shortened(str(value), 72)
    return count(value) if isinstance(value, int) else general(value)
