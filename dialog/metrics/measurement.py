"""Measure the responses of one system, block by block: values, and the statistics of each
response.
"""

from __future__ import annotations

import copy
import inspect
import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dialog.metrics.scores.additive import AdditiveScore, ResponseScore, ShareScore
from dialog.metrics.scores.counts import CountScore, Items
from dialog.metrics.scores.repetition import SelfBLEUScore
from dialog.metrics.words import words

Row = Mapping[str, Any]
"""A line of responses.jsonl."""
TEXTS = {
    "responses": "response",
    "references": "reference",
    "contexts": "context",
    "preds": "response",
    "target": "reference",
    "dialogues": "dialogue_id",
}
NUMBERS = {
    "nll": "nll",
    "tokens": "reference_tokens",
    "correct": "reference_correct",
    "words": "reference_words",
    "bytes": "reference_bytes",
    "unknown": "reference_unknown",
    "unknown_bytes": "reference_unknown_bytes",
    "train_copy": "train_copy",
    "candidate_rank": "candidate_rank",
}
FIELDS = TEXTS | NUMBERS
INPUTS = tuple(FIELDS)
"""Names of the arguments that an evaluation passes to `update`; a metric receives those that it
names.

`responses`, `references`, and for the metrics of torchmetrics the same as `preds` and `target`: raw
text; `contexts`: lists of turns; `dialogues`: ids. The others, one number per reference, are
defined in `likelihood.py`.
"""
UNDEFINED = "undefined or infinite for these responses"
"""Reason for which a metric without a finite value is absent from metrics.json."""
NESTED = ("sacrebleu",)
"""Metrics that metrics.json has as score and signature; it has the other metrics as numbers."""
FAILED = "failed"
"""Start of the reason for which a metric that raised an error is left out."""

Metric = Any
"""A score of this package, or any `torchmetrics.Metric`."""

log = logging.getLogger("dialog")


def inputs_of(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the inputs of metrics, by name, for which all rows have the field; words and bytes are
    counted if missing.

    Texts are lists, numbers are float64 arrays [N].
    """
    counted: dict[str, Any] = {
        "reference_words": lambda row: len(words(row["reference"])),
        "reference_bytes": lambda row: len(row["reference"].encode()),
    }
    inputs: dict[str, Any] = {
        name: [row[field] for row in rows]
        for name, field in TEXTS.items()
        if all(field in row for row in rows)
    }
    for name, field in NUMBERS.items():
        if all(field in row for row in rows):
            values = [math.nan if row[field] is None else row[field] for row in rows]
            inputs[name] = np.array(values, dtype=np.float64)
        elif field in counted:
            inputs[name] = np.array([counted[field](row) for row in rows], dtype=np.float64)
    return inputs


def arguments_of(metric: Metric) -> dict[str, bool]:
    """Return the inputs that `update` of a metric names, and whether each is required; `**` stands
    for all inputs.
    """
    function = metric.items_of if isinstance(metric, CountScore) else metric.update
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict.fromkeys(INPUTS, False)
    return {
        parameter.name: parameter.default is parameter.empty
        for parameter in parameters
        if parameter.kind is not parameter.VAR_POSITIONAL
    }


class Measurement:
    """Values of metrics over the responses of one system, and what each response contributes.

    A metric that fails on a response, or lacks an input, is left out and the others stay;
    `left_out` has the reasons.

    Args:
        metrics: Metrics without responses, by their key in metrics.json.
        statistics: Statistics of all responses [N, size], by key, which are not computed again.
    """

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        *,
        statistics: Mapping[str, NDArray[np.float64]] | None = None,
    ) -> None:
        self.metrics = dict(metrics)
        self.additive = {
            key: metric for key, metric in metrics.items() if isinstance(metric, AdditiveScore)
        }
        self.counted = {
            key: metric for key, metric in metrics.items() if isinstance(metric, CountScore)
        }
        self.left_out: dict[str, str] = {}
        self._given = (
            {key: statistics[key] for key in self.additive if key in statistics}
            if statistics
            else {}
        )
        self._statistics: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
        self._items: dict[str, list[Items]] = defaultdict(list)

    def add(self, rows: Sequence[Row]) -> None:
        """Add responses, lines of responses.jsonl."""
        if not rows:
            return
        inputs = inputs_of(rows)
        for key, metric in self.metrics.items():
            if key in self._given:
                continue
            arguments = arguments_of(metric)
            missing = [
                name for name, required in arguments.items() if required and name not in inputs
            ]
            if missing:
                self.left_out.setdefault(key, f"the responses have no {FIELDS[missing[0]]}")
            if key in self.left_out:
                continue
            own = {name: inputs[name] for name in arguments if name in inputs}
            if isinstance(metric, ResponseScore):
                own["references"] = [row.get("references", row["reference"]) for row in rows]
            try:
                self._measure(key, metric, own)
            except Exception as error:  # of a user's metric
                place = failing_row(metric, own)
                where = "" if place is None else f" on response {rows[place].get('id', place)}"
                self._leave_out(key, f"{FAILED}{where} ({describe(error)})")

    def give(self, key: str, statistics: NDArray[np.float64]) -> None:
        """Add one of `SHARES` by its statistics of all responses [N, 2], which their rows lack."""
        self.metrics[key] = self.additive[key] = ShareScore()
        self._given[key] = statistics

    def statistics(self) -> dict[str, NDArray[np.float64]]:
        """Return the statistics of each response [N, size], by the key of their additive metric."""
        blocks = {**self._statistics, **{key: [array] for key, array in self._given.items()}}
        return {
            key: np.concatenate(blocks[key])
            for key in self.additive
            if key in blocks and key not in self.left_out
        }

    def items(self) -> dict[str, Items]:
        """Return the items of each response, by the key of their metric of item counts."""
        return {
            key: Items(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))
            for key, blocks in self._items.items()
            if key not in self.left_out
        }

    def values(self) -> dict[str, Any]:
        """Return the value of each metric that is not left out, as `compute` returns it."""
        statistics = self.statistics()
        items = self.items()
        values = {key: self._value(key, statistics, items) for key in self.metrics}
        return {key: value for key, value in values.items() if key not in self.left_out}

    def values_of(self, rows: NDArray[np.bool_]) -> dict[str, float]:
        """Return the metrics of the responses that a mask [N] selects; only additive ones and those
        of item counts.

        One that is undefined for them, such as a mean of no value, or infinite, is absent.
        """
        values = {
            key: self.additive[key].value_of(numbers[rows])
            for key, numbers in self.statistics().items()
        }
        values |= {
            key: float(self.counted[key].value(items.counts(rows)))
            for key, items in self.items().items()
        }
        return {
            key: values[key] for key in self.metrics if math.isfinite(values.get(key, math.nan))
        }

    def _measure(self, key: str, metric: Metric, inputs: Mapping[str, Any]) -> None:
        if key in self.additive:
            self._statistics[key].append(np.asarray(self.additive[key].statistics_of(**inputs)))
        elif key in self.counted:
            self._items[key].append(self.counted[key].items_of(**inputs))
        else:
            metric.update(**as_tensors(metric, inputs))

    def _value(
        self, key: str, statistics: Mapping[str, NDArray[np.float64]], items: Mapping[str, Items]
    ) -> Any:
        if key in self.left_out:
            return None
        try:
            if key in statistics:
                return self.additive[key].value_of(statistics[key])
            if key in items:
                return float(self.counted[key].value(items[key].counts()))
            return self.metrics[key].compute()
        except Exception as error:  # of a user's metric
            self._leave_out(key, f"{FAILED} ({describe(error)})")
            return None

    def _leave_out(self, key: str, reason: str) -> None:
        self.left_out[key] = reason
        log.warning("%s: %s; it is left out", key, reason)


def as_tensors(metric: Metric, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the inputs with tensors in place of arrays, for a metric of torchmetrics."""
    if isinstance(metric, SelfBLEUScore):
        return dict(inputs)
    import torch

    return {
        name: torch.from_numpy(values) if isinstance(values, np.ndarray) else values
        for name, values in inputs.items()
    }


def failing_row(metric: Metric, inputs: Mapping[str, Sequence[Any]]) -> int | None:
    """Return the index of the first response on which a metric fails alone; None if it fails on no
    single one.
    """
    for place in range(len(next(iter(inputs.values()), ()))):
        one = {name: values[place : place + 1] for name, values in inputs.items()}
        try:
            if isinstance(metric, AdditiveScore):
                metric.statistics_of(**one)
            elif isinstance(metric, CountScore):
                metric.items_of(**one)
            else:
                alone = copy.deepcopy(metric)
                alone.reset()
                alone.update(**as_tensors(alone, one))
        except Exception:  # of a user's metric
            return place
    return None


def describe(error: Exception) -> str:
    """Return the type and message of an error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def results(measurement: Measurement) -> dict[str, Any]:
    """Return the metrics as JSON, with their `signatures`; `left_out` has the reasons for those
    that are absent.
    """
    values = {name: _plain(value) for name, value in measurement.values().items()}
    undefined = {
        name: UNDEFINED
        for name, value in values.items()
        if isinstance(value, float) and not math.isfinite(value)
    }
    values = {name: value for name, value in values.items() if name not in undefined}
    measured = {name: metric for name, metric in measurement.metrics.items() if name in values}
    signatures = {
        name: metric.signature for name, metric in measured.items() if hasattr(metric, "signature")
    }
    nested = {
        name: {"score": values[name], "signature": signatures[name]}
        for name in NESTED
        if name in signatures
    }
    return {
        **values,
        **nested,
        "signatures": signatures,
        "left_out": measurement.left_out | undefined,
    }


def _plain(value: object) -> Any:
    if hasattr(value, "tolist"):  # of an array or a tensor
        return value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
