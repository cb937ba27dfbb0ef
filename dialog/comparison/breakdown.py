"""Breakdown of the quality of all models by properties of the examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.analysis.buckets import (
    CONTEXT_TURNS,
    CONTEXT_WORDS,
    RAREST_WORD,
    RESPONSE_WORDS,
    TrainingText,
    label_of,
    rarest_word_count,
    response_acts,
    training_text,
)
from dialog.analysis.measured import Measured, all_references
from dialog.config.schema import Recipe
from dialog.errors import UserError
from dialog.metrics.scores.likelihood import BitsPerByteScore
from dialog.metrics.scores.overlap import F1Score
from dialog.metrics.words import words
from dialog.report.formats.results import Breakdown, Bucket, ExactShare

Floats = NDArray[np.float64]

TRAINING_LENGTH = "context length"
MANY_BEYOND = 0.05
"""Share of contexts longer than all of train from which they are reported as a group."""


class Qualities(NamedTuple):
    """Statistics of the responses of a run: of the metrics `BitsPerByte` [N, 3] and `F1` [N, 2];
    and whether each response is the reference [N].
    """

    likelihood: Floats | None  # None for responses of systems without likelihood
    f1: Floats
    exact: NDArray[np.bool_]


class Grouping(NamedTuple):
    """A property of the examples: the label of each, None where it is unknown, and the order of the
    labels.
    """

    by: str
    labels: list[str | None]
    order: list[str]


def breakdown(
    evaluations: Mapping[str, Sequence[Measured]],
    train: TrainingText | None = None,
    acts: Mapping[str, str] | None = None,
) -> tuple[Breakdown, ...]:
    """Return the quality by property from the responses of all runs, which have the same examples
    in order.

    Values are means over runs; bits per byte are None without likelihood. Empty buckets are left
    out.

    Args:
        evaluations: Evaluations of the runs, by model.
        train: Words of train, from `training_text`; None if train is unknown.
        acts: Dialogue act of each example by its id, from `response_acts`.
    """
    first = next((runs[0] for runs in evaluations.values() if runs), None)
    if first is None:
        return ()
    qualities = {model: [*map(_qualities, runs)] for model, runs in evaluations.items()}
    parts = (
        Breakdown(
            grouping.by,
            tuple(
                _bucket(label, grouping, qualities)
                for label in grouping.order
                if label in grouping.labels
            ),
        )
        for grouping in groupings(first.rows, train, acts or {})
    )
    return tuple(part for part in parts if part.buckets)


def example_properties(recipe: Recipe, split: str) -> tuple[TrainingText | None, dict[str, str]]:
    """Return the last two arguments of `breakdown`: the words of train, and the acts of a split's
    responses.

    The words are None if the corpus has no training split.
    """
    from dialog.build import build_corpus, build_rules

    corpus = build_corpus(recipe)
    rules = build_rules(recipe)
    acts = response_acts(corpus.dialogues(split), rules)
    try:
        return training_text(corpus.dialogues("train"), rules), acts
    except UserError:
        return None, acts


def groupings(
    rows: Sequence[Mapping[str, Any]], train: TrainingText | None, acts: Mapping[str, str]
) -> list[Grouping]:
    """Label the examples of lines of a responses.jsonl by each property that is known."""
    turns: list[str | None] = []
    lengths: list[int] = []
    sizes: list[str | None] = []
    rarest: list[str | None] = []
    act_labels: list[str | None] = []
    for row in rows:
        turns.append(label_of(len(row["context"]), CONTEXT_TURNS))
        lengths.append(sum(len(words(turn)) for turn in row["context"]))
        sizes.append(label_of(len(words(row["reference"])), RESPONSE_WORDS))
        count = None if train is None else rarest_word_count(row["reference"], train.counts)
        rarest.append(None if count is None else label_of(count, RAREST_WORD))
        act_labels.append(acts.get(row["id"]))
    distinct_acts = sorted({label for label in act_labels if label is not None})
    return [
        Grouping("context turns", turns, [label for _, label in CONTEXT_TURNS]),
        Grouping(
            "context words",
            [label_of(length, CONTEXT_WORDS) for length in lengths],
            [label for _, label in CONTEXT_WORDS],
        ),
        *_beyond_training(lengths, train),
        Grouping("response words", sizes, [label for _, label in RESPONSE_WORDS]),
        Grouping("rarest word", rarest, [label for _, label in RAREST_WORD]),
        Grouping("act", act_labels, distinct_acts),
    ]


def _beyond_training(lengths: Sequence[int], train: TrainingText | None) -> list[Grouping]:
    """Group examples by whether their context is longer than all of train, if many are."""
    if train is None:
        return []
    longest = train.longest_context
    beyond = sum(length > longest for length in lengths)
    if beyond < MANY_BEYOND * len(lengths):
        return []
    order = [f"trained: up to {longest} words", "longer than trained"]
    return [Grouping(TRAINING_LENGTH, [order[length > longest] for length in lengths], order)]


def _bucket(label: str, grouping: Grouping, qualities: Mapping[str, Sequence[Qualities]]) -> Bucket:
    chosen = np.array([other == label for other in grouping.labels])
    return Bucket(
        label,
        int(chosen.sum()),
        {model: _bits_per_byte(runs, chosen) for model, runs in qualities.items()},
        {model: _f1(runs, chosen) for model, runs in qualities.items()},
        {model: _exact(runs, chosen) for model, runs in qualities.items()},
    )


def _bits_per_byte(runs: Sequence[Qualities], chosen: NDArray[np.bool_]) -> float | None:
    metric = BitsPerByteScore()
    sums = [run.likelihood[chosen].sum(0).tolist() for run in runs if run.likelihood is not None]
    values = [float(metric.value(*row)) for row in sums if row[1]]
    return float(np.mean(values)) if values else None


def _f1(runs: Sequence[Qualities], chosen: NDArray[np.bool_]) -> float | None:
    metric = F1Score()
    values = [float(metric.value(*run.f1[chosen].sum(0).tolist())) for run in runs]
    return float(np.mean(values)) if values else None


def _exact(runs: Sequence[Qualities], chosen: NDArray[np.bool_]) -> ExactShare | None:
    """Return mean and, with several runs, standard deviation of the share of exact responses."""
    shares = [float(run.exact[chosen].mean()) for run in runs]
    if not shares:
        return None
    return ExactShare(fmean(shares), stdev(shares) if len(shares) > 1 else None)


def _qualities(measured: Measured) -> Qualities:
    statistics = measured.measurement.statistics()
    likelihood = statistics.get("bits_per_byte")
    exact = [words(row["response"]) in map(words, all_references(row)) for row in measured.rows]
    known = likelihood is not None and np.isfinite(likelihood).all()
    return Qualities(likelihood if known else None, statistics["f1"], np.array(exact, dtype=bool))
