"""Train and evaluate recipes, and check their expected metrics."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dialog.config.compose import Composed, compose
from dialog.config.trust import FULL_TRUST
from dialog.errors import RunError, UserError
from dialog.report.formats.metrics import metric_at, metric_display

QUIET = ("trainer.enable_progress_bar=false", "logger=none")
SHORT = "generation.max_length=8"
"""Limit of a smoke run, whose network seldom ends a response."""
SPLIT = "test"
log = logging.getLogger("dialog")


class Expectation(NamedTuple):
    """An expected metric of a recipe, and the outcome.

    ``state`` is "held" (within the tolerance), "missed", "not compared" (measured in a smoke run),
    "ran" (nothing is expected) or "failed"; ``message`` is the reason. ``code`` is the exit code of
    a failure, 1 for a missed expectation, else 0.
    """

    recipe: str
    metric: str
    expected: float | None
    tolerance: float | None
    value: float | None
    state: str
    message: str = ""
    code: int = 0

    def cells(self) -> tuple[str, ...]:
        """Return the columns of the table."""
        numbers = [
            "" if value is None else metric_display(self.metric).format(value)
            for value in (self.expected, self.tolerance, self.value)
        ]
        expected = "" if self.expected is None else f"{numbers[0]} ± {numbers[1]}"
        return self.recipe, self.metric, expected, numbers[2], self.state


def verify_recipes(
    names: Sequence[str], overrides: Sequence[str] = (), *, full: bool
) -> Iterator[list[Expectation]]:
    """Yield the outcomes of each recipe as soon as it has run; one that fails does not stop the
    others.
    """
    for name in names:
        log.info("%s: %s", name, "training" if full else "a smoke run")
        try:
            yield verify_recipe(name, overrides, full=full)
        except Exception as error:  # interruptions are no Exception
            expected = isinstance(error, UserError | RunError)
            message = str(error) if expected else f"{type(error).__name__}: {error}"
            code = 2 if isinstance(error, UserError) else 1
            yield [Expectation(name, "", None, None, None, "failed", message, code)]


def verify_recipe(name: str, overrides: Sequence[str], *, full: bool) -> list[Expectation]:
    """Train a recipe, or run its smoke overrides, evaluate it on the test split, and check its
    expectations.

    Raises:
        UserError, RunError: of composing, training or evaluating.
    """
    composed = compose(name, overrides)
    smoke = () if full else composed.recipe.smoke
    composed = compose(name, [*smoke, *QUIET, *overrides], trust=FULL_TRUST)
    with tempfile.TemporaryDirectory(prefix="dialog-") as folder:
        metrics = run(composed, Path(folder) / "run", () if full else (SHORT,))
    outcomes = [check(name, item, metrics, full=full) for item in composed.recipe.expect]
    return outcomes or [
        Expectation(name, "", None, None, None, "ran", "the recipe states no expectation")
    ]


def run(composed: Composed, folder: Path, overrides: Sequence[str]) -> Mapping[str, Any]:
    """Train and evaluate a recipe; return its metrics."""
    from dialog.runs.evaluation.evaluate import evaluate
    from dialog.runs.load import load
    from dialog.runs.train import train

    train(composed, folder, quiet=True)
    return evaluate(
        load(folder, overrides=overrides, trust=FULL_TRUST.within(composed.recipe)),
        SPLIT,
        quiet=True,
    ).metrics


def check(
    name: str, item: Mapping[str, Any], metrics: Mapping[str, Any], *, full: bool
) -> Expectation:
    """Compare a metric with what is expected of it; of a smoke run only check that it was
    measured.
    """
    metric = str(item["metric"])
    expected = float(item["value"])
    tolerance = float(item["tolerance"])
    value = metric_at(metrics, metric)
    row = Expectation(name, metric, expected, tolerance, value, "not compared")
    if value is None:
        return row._replace(state="failed", message="the evaluation has no such metric", code=1)
    if not full:
        return row
    if abs(value - expected) <= tolerance:
        return row._replace(state="held")
    return row._replace(
        state="missed", message=f"by {abs(value - expected) - tolerance:.2g}", code=1
    )
