"""Attention of all runs of a comparison on the same references."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dialog.analysis.attention.maps import rounded
from dialog.build import build_corpus, build_rules
from dialog.comparison.grid.folder import SPLIT
from dialog.comparison.results.systems import System
from dialog.data.dialogue import Example
from dialog.data.examples import examples
from dialog.runs.run import Run

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


def attention(systems: Sequence[System], samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return "attention" of results.json: cross-attention of all evaluated runs on the same few
    references.

    "examples" has the id, the context and the response of each, and under "models" the model, the
    seed, and the JSON of `dialog attention` with cross-attention over tokens alone. A failure is
    logged and leaves the section empty.
    """
    chosen = choose_examples(samples)
    trained = [system for system in systems if system.contender.kind != "responses"]
    try:
        readings = within_limit(
            [reading for system in trained for reading in readings_of(system, chosen)]
        )
    except Exception as error:  # the other results do not depend on it
        log.warning("attention: not measured (%s: %s)", type(error).__name__, error)
        log.debug("where:", exc_info=True)
        readings = []
    entries = [
        [reading.entry for reading in readings if reading.example == place]
        for place in range(len(chosen))
    ]
    return {
        "examples": [
            {
                "id": sample["id"],
                "context": sample["context"],
                "response": sample["reference"],
                "models": models,
            }
            for sample, models in zip(chosen, entries, strict=True)
            if models
        ]
    }


def choose_examples(samples: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Choose the `EXAMPLES` samples whose attention is shown: short references first, then those
    with long contexts.
    """

    def preference(sample: Mapping[str, Any]) -> tuple[bool, int]:
        return len(sample["reference"].split()) <= MOST_WORDS, len(sample["context"])

    return sorted(samples, key=preference, reverse=True)[:EXAMPLES]


def readings_of(system: System, chosen: Sequence[Mapping[str, Any]]) -> Iterator[SeedReading]:
    """Yield the maps of each evaluated run of a contender on each example; none for a model without
    attention.
    """
    originals: dict[str, Example] = {}
    for rank, finished in enumerate(system.measured_runs):
        run = finished.load()
        originals = originals or examples_by_id(run, {sample["id"] for sample in chosen})
        for place, sample in enumerate(chosen):
            reading = cross_attention(run, originals[sample["id"]])
            size = sum(np.size(one["weights"]) for one in reading["maps"])
            if size:
                yield SeedReading(
                    place,
                    rank,
                    {"model": system.name, "seed": finished.entry["seed"], **reading},
                    size,
                )


def examples_by_id(run: Run, ids: set[str]) -> dict[str, Example]:
    """Return the examples of the test split that have these ids, as the run reads them."""
    stream = examples(build_corpus(run.recipe).dialogues(SPLIT), build_rules(run.recipe), Counter())
    return {example.id: example for example in stream if example.id in ids}


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
