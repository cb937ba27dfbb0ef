"""Attention of all runs of a comparison: maps of a few references, statistics of the test split."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dialog.analysis.attention.maps import rounded
from dialog.analysis.attention.split import SAMPLE
from dialog.build import build_corpus, build_rules
from dialog.comparison.grid.folder import SPLIT
from dialog.comparison.results.systems import FinishedRun
from dialog.config.schema import to_dict
from dialog.data.dialogue import Example
from dialog.data.examples import examples
from dialog.escaping import json_copy
from dialog.report.formats.results import AttentionExample, ShownExample
from dialog.runs.evaluation.evaluated import read_added, write_added
from dialog.runs.folder import hash_of
from dialog.runs.run import Run

FILE = "attention.json"
FORMAT = 1
EXAMPLES = 4
MOST_WEIGHTS = 200_000
"""Weights of all examples, models and seeds together, which are 0.5 MB of a report."""
MOST_WORDS = 20
"""Longer references are chosen last."""
DIGITS = 5

log = logging.getLogger("dialog")


class SeedReading(NamedTuple):
    """Maps of one run on one example."""

    example: int  # place among the chosen ones
    rank: int  # of the run among those of its model
    entry: dict[str, Any]
    size: int  # number of weights


def attention_examples(
    chosen: Sequence[ShownExample], readings: Sequence[SeedReading]
) -> tuple[AttentionExample, ...]:
    """Return the cross-attention over tokens of all evaluated runs on the same few references."""
    kept = within_limit(readings)
    entries = [
        tuple(reading.entry for reading in kept if reading.example == place)
        for place in range(len(chosen))
    ]
    return tuple(
        AttentionExample(sample.id, sample.context, sample.reference, models)
        for sample, models in zip(chosen, entries, strict=True)
        if models
    )


def choose_examples(samples: Sequence[ShownExample]) -> list[ShownExample]:
    """Choose the `EXAMPLES` samples whose attention is shown: short references first, then those
    with long contexts.
    """

    def preference(sample: ShownExample) -> tuple[bool, int]:
        return len(sample.reference.split()) <= MOST_WORDS, len(sample.context)

    return sorted(samples, key=preference, reverse=True)[:EXAMPLES]


def readings_of(
    run: Run, labels: Mapping[str, Any], rank: int, examples: Sequence[Example]
) -> Iterator[SeedReading]:
    """Yield the maps of a run on each example; none for a model without attention.

    Args:
        run: The run.
        labels: "model" and "seed" of the entries.
        rank: Place of the run among those of its model.
        examples: The chosen ones.
    """
    for place, example in enumerate(examples):
        reading = cross_attention(run, example)
        size = sum(np.size(one["weights"]) for one in reading["maps"])
        if size:
            yield SeedReading(place, rank, {**labels, **reading}, size)


def examples_of(run: Run, ids: Sequence[str]) -> list[Example]:
    """Return the examples of the test split that have these ids, as the run reads them."""
    stream = examples(build_corpus(run.recipe).dialogues(SPLIT), build_rules(run.recipe), Counter())
    by_id = {example.id: example for example in stream if example.id in ids}
    return [by_id[name] for name in ids]


def cross_attention(run: Run, example: Example) -> dict[str, Any]:
    """Return the maps of an example: cross-attention over tokens alone, with rounded weights."""
    reading = run.attention_of_example(example)
    maps = [
        {**one, "weights": rounded(one["weights"], DIGITS)}
        for one in reading["maps"]
        if (one["kind"], one["columns"]) == ("cross", "source")
    ]
    rolled = None if reading["rollout"] is None else rounded(reading["rollout"], DIGITS)
    return {**reading, "maps": maps, "rollout": rolled}


def within_limit(readings: Sequence[SeedReading], limit: int = MOST_WEIGHTS) -> list[SeedReading]:
    """Leave out the last seeds of all models, then the last examples, until the limit is kept; one
    of each remains.

    The first runs of all models come first.
    """
    seeds = 1 + max((reading.rank for reading in readings), default=0)
    sizes = [(ranks, EXAMPLES) for ranks in range(seeds, 0, -1)] + [
        (1, count) for count in range(EXAMPLES - 1, 0, -1)
    ]
    for ranks, count in sizes:
        kept = [reading for reading in readings if reading.rank < ranks and reading.example < count]
        if sum(reading.size for reading in kept) <= limit:
            break
    return sorted(kept, key=lambda reading: reading.rank)


def statistics_rows(
    run: Run, finished: FinishedRun, evaluation: Path
) -> tuple[Mapping[str, Any], ...]:
    """Return the attention statistics of a run on the test split, from attention.json of its
    evaluation folder or measured and written to it.

    A row has the module, the head and the statistics of `split_statistics`, for each head, and for
    the mean, the rollout and equal weights, which can be compared between families. Values that are
    not defined are left out. Empty for a model without cross-attention.
    """
    if not run.model.decoder.shows_source:
        return ()
    path = evaluation / FILE
    fingerprint = _fingerprint(run, finished.entry.metrics)
    measured = read_added(path, "fingerprint", "rows")
    if measured is None or measured["fingerprint"] != fingerprint:
        finished.cell.check_named()
        log.info("measuring the attention of %s", finished.folder)
        measured = json_copy(
            {"fingerprint": fingerprint, **run.attention_statistics(SPLIT, quiet=True)}
        )
        write_added(path, measured)
    return tuple(
        {
            name: round(value, DIGITS) if isinstance(value, float) else value
            for name, value in row.items()
            if value is not None
        }
        for row in measured["rows"]
        if "coverage" in row
    )


def _fingerprint(run: Run, metrics: Mapping[str, Any]) -> str:
    data = {key: value for key, value in metrics["data"].items() if key != "fingerprint"}
    return hash_of(
        [
            FORMAT,
            SAMPLE,
            metrics["weights"],
            metrics["fingerprint"],
            data,
            to_dict(run.recipe)["model"],
        ]
    )
