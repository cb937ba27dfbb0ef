"""Metrics of generated responses and of the likelihood of references.

Read first: `likelihood.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dialog.config.components import Family
from dialog.metrics.diversity import distinct_1, distinct_2, length_mean, unique_ratio
from dialog.metrics.likelihood import Likelihood
from dialog.metrics.overlap import f1, sacrebleu

Metric = Callable[[Sequence[str], Sequence[str]], float | dict[str, float | str]]
"""Maps all responses of a split and their references, raw text in the same order, to one number or several by name."""

METRICS: Family[float | dict[str, float | str]] = Family(
    "metric",
    {
        "f1": f1,
        "sacrebleu": sacrebleu,
        "distinct_1": distinct_1,
        "distinct_2": distinct_2,
        "length_mean": length_mean,
        "unique_ratio": unique_ratio,
    },
    runtime=("responses", "references"),
)

__all__ = ["METRICS", "Likelihood", "Metric"]
