"""Reference rows of a comparison, and warnings about models that do not beat them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dialog.report.formats.metrics import metric_value

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


def ngram_warnings(models: Sequence[Mapping[str, Any]], references: Mapping[str, Rows]) -> list[str]:
    """Return a sentence for each model that is worse than the best n-gram model, which does not read the context.

    Both are measured in bits per byte on the same subset.

    Args:
        models: "models" of results.json, with mean values in "summary".
        references: "references" of results.json.
    """
    sentences = []
    for model in models:
        worse = {subset: _worse(model["summary"].get(subset, {}), references, subset) for subset in SUBSETS}
        places = [
            f"{values} on {SUBSETS[subset]}"
            for subset, values in worse.items()
            if values and (subset == "all" or values != worse["all"])  # a subset may be the whole test set
        ]
        if places:
            sentences.append(
                f"{model['name']} has more bits per byte than an n-gram model that does not read the context: "
                f"{', '.join(places)}."
            )
    return sentences


def _worse(summary: Mapping[str, Any], references: Mapping[str, Rows], subset: str) -> str:
    """Return both values if the model is worse than the best n-gram model on a subset, else an empty string."""
    own = metric_value(summary[PRIMARY]["mean"]) if PRIMARY in summary else None
    orders = {name: row[PRIMARY] for name, row in references.get(subset, {}).items() if name.startswith(NGRAM)}
    best = min(orders, key=lambda name: orders[name], default="")
    if own is None or not best or not own > orders[best]:  # nan is not
        return ""
    order = best.removeprefix(NGRAM)
    return f"{own:.3f} against {orders[best]:.3f} ({order}-gram)"
