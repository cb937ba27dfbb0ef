"""Reference rows of a comparison, and warnings about models that do not beat them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dialog.comparison.statistics.verdict import listed
from dialog.report.formats.metrics import metric_value
from dialog.report.formats.results import ModelResults
from dialog.report.tables import MOST_NAMES

SUBSETS = {"all": "all dialogues", "clean": "clean dialogues", "leaked": "leaked dialogues"}
"""Subsets of the test set, and their names in sentences."""
NGRAM = "ngram_"
PRIMARY = "bits_per_byte"

Rows = dict[str, dict[str, float]]


def references_of(metrics: Mapping[str, Any]) -> dict[str, Rows]:
    """Return the reference rows by subset from a metrics.json; a subset without any is empty."""
    subsets = metrics.get("subsets", {})
    rows = {"all": metrics, "clean": subsets.get("clean", {}), "leaked": subsets.get("leaked", {})}
    return {
        subset: {
            name: {key: value for key, value in values.items() if metric_value(value) is not None}
            for name, values in part.get("baselines", {}).items()
        }
        for subset, part in rows.items()
    }


def ngram_warnings(models: Sequence[ModelResults], references: Mapping[str, Rows]) -> list[str]:
    """Return sentences on the models that are worse than the best n-gram model, which does not read
    the context.

    Both are measured in bits per byte on the same subset. Models that are worse on the same subsets
    share a sentence.
    """
    groups: dict[tuple[str, ...], list[ModelResults]] = {}
    for model in models:
        values = {
            subset: (_bits(model, subset), _best_ngram(references, subset)[0]) for subset in SUBSETS
        }
        worse = [subset for subset, (own, best) in values.items() if own > best]  # nan is not
        # or it is the whole set
        distinct = [name for name in worse if name == "all" or values[name] != values["all"]]
        groups.setdefault(tuple(distinct), []).append(model)
    return [
        f"{_subject(worse, len(models))} more bits per byte than an n-gram model that does not read"
        f" the context: {_values(worse, subsets, references)}{_exception(worse, references)}."
        for subsets, worse in groups.items()
        if subsets
    ]


def _exception(models: Sequence[ModelResults], references: Mapping[str, Rows]) -> str:
    """Return ", but 1.4 against 1.5 (2-gram) on clean dialogues" if there no model is worse than
    the n-gram models.
    """
    best, _ = _best_ngram(references, "clean")
    not_worse = all(_bits(model, "clean") <= best for model in models)  # nan is not
    return f", but {_values(models, ['clean'], references)}" if not_worse else ""


def _subject(models: Sequence[ModelResults], number: int) -> str:
    """Return "a and b have", or "All 9 contenders have" for all of a large number."""
    if len(models) == number > MOST_NAMES:
        return f"All {number} contenders have"
    return f"{listed([model.name for model in models])} {'have' if len(models) > 1 else 'has'}"


def _values(
    models: Sequence[ModelResults], subsets: Sequence[str], references: Mapping[str, Rows]
) -> str:
    """Return "1.5 to 1.6 against 1.3 (3-gram) on all dialogues", for each subset."""
    places = []
    for subset in subsets:
        best, order = _best_ngram(references, subset)
        values = sorted(_bits(model, subset) for model in models)
        own = " to ".join(dict.fromkeys(f"{value:.3f}" for value in (values[0], values[-1])))
        places.append(f"{own} against {best:.3f} ({order}-gram) on {SUBSETS[subset]}")
    return ", ".join(places)


def _bits(model: ModelResults, subset: str) -> float:
    """Return the mean of a model on a subset; nan without one."""
    entry = model.means(subset).get(PRIMARY)
    return entry.mean if entry else math.nan


def _best_ngram(references: Mapping[str, Rows], subset: str) -> tuple[float, str]:
    """Return the lowest value of an n-gram model on a subset, and its order; nan without one."""
    orders = {
        name: row[PRIMARY]
        for name, row in references.get(subset, {}).items()
        if name.startswith(NGRAM)
    }
    best = min(orders, key=orders.__getitem__, default="")
    return orders.get(best, math.nan), best.removeprefix(NGRAM)
