"""Use of the context by the runs of a comparison."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np

from dialog.analysis.context_use import (
    DISTANCES,
    DROPPED,
    LEAST_TURNS,
    PERTURBATIONS,
    Likelihood,
    context_effects,
    draw_dialogues,
)
from dialog.build import build_corpus, build_rules
from dialog.comparison.statistics.interval import LEVEL, Runs, interval, variances
from dialog.comparison.statistics.subset import LEAST_DIALOGUES
from dialog.config.schema import to_dict
from dialog.data.dialogue import Example
from dialog.data.examples import examples
from dialog.escaping import json_copy
from dialog.report.formats.results import ContextChange, ContextUse, DroppedTurn, Perturbation
from dialog.runs.evaluation.evaluated import read_added, write_added
from dialog.runs.evaluator import Evaluator
from dialog.runs.folder import hash_of
from dialog.runs.run import Run
from dialog.training.optimization.allocator import tune_process

FILE = "context_use.json"
MOST_EXAMPLES = 500
"""Examples of the sample: standard errors of 0.0003 to 0.0057 bits per byte for an LSTM on
DailyDialog.
"""
SETTINGS = {
    "format": 3,
    "perturbations": [*PERTURBATIONS],
    "distances": DISTANCES,
    "least_turns": LEAST_TURNS,
    "word_drop": DROPPED,
}


def sample_of(run: Run, split: str) -> list[Example]:
    """Draw the sample of a run's split on which the use of the context is measured; equal for equal
    test sets.
    """
    stream = examples(build_corpus(run.recipe).dialogues(split), build_rules(run.recipe), Counter())
    return draw_dialogues(stream, MOST_EXAMPLES)


def measure_context_use(
    run: Run,
    evaluation: Path,
    sample: Sequence[Example],
    check_writable: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Score a sample under every change of its contexts; write and return context_use.json of an
    evaluation folder.

    It has the `context_effects` of the run, with a 95 % interval over dialogues for each change in
    bits per byte, the sizes of the sample, and a fingerprint of sample, settings and weights; an
    unchanged file with the same fingerprint is returned as it is. `check_writable` raises if the
    folder may only be read.
    """
    fingerprint = _fingerprint(run, sample)
    kept = read_added(evaluation / FILE, "fingerprint", "perturbations", "distance")
    if kept is not None and kept["fingerprint"] == fingerprint:
        return kept
    if check_writable is not None:
        check_writable()
    tune_process()
    began = time.monotonic()
    evaluator = Evaluator(run.responder, run.recipe.generation.search, run.recipe.data.batch_tokens)

    def score(variants: Sequence[Example]) -> list[Likelihood]:
        return [Likelihood(scored.nll, scored.tokens) for scored in evaluator.scores(variants)]

    measured = {
        "fingerprint": fingerprint,
        "sample": "whole dialogues in the order of the SHA-256 of their ids",
        "examples": len(sample),
        "dialogues": len({example.dialogue_id for example in sample}),
        **context_effects(sample, score),
    }
    for row in (*measured["perturbations"], *measured["distance"]):
        row["interval"] = interval_of([row])
    measured["seconds"] = time.monotonic() - began
    write_added(evaluation / FILE, measured)
    return json_copy(measured)


def context_results(measured: Mapping[str, Sequence[Mapping[str, Any]]]) -> ContextUse:
    """Return the use of the context from the context_use.json of all runs, by model.

    `rows` and `distance` have the change in bits per byte as mean, sample standard deviation (None
    for one run) and interval over the seeds of each model, without values that are not finite. A
    perturbation that changed no context of the sample is left out.
    """
    first = next((runs[0] for runs in measured.values() if runs), None)
    if first is None:
        return ContextUse()
    rows = (
        Perturbation(
            row["perturbation"], row["changed"], _over_seeds(measured, "perturbations", place)
        )
        for place, row in enumerate(first["perturbations"])
    )
    distance = (
        DroppedTurn(row["distance"], row["examples"], _over_seeds(measured, "distance", place))
        for place, row in enumerate(first["distance"])
    )
    return ContextUse(first["examples"], tuple(rows), tuple(distance))


def _over_seeds(
    measured: Mapping[str, Sequence[Mapping[str, Any]]], part: str, place: int
) -> dict[str, ContextChange]:
    """Return mean, deviation, interval and number of the change in bits per byte, and the mean
    perplexity, by model.
    """
    values = {}
    for model, runs in measured.items():
        changes = [run[part][place] for run in runs]
        finite = [change for change in changes if change["bits_per_byte"] is not None]
        bits = [change["bits_per_byte"] for change in finite]
        perplexity = [
            change["perplexity_token"]
            for change in changes
            if change["perplexity_token"] is not None
        ]
        if bits:
            std = stdev(bits) if len(bits) > 1 else None
            mean = fmean(perplexity) if perplexity else None
            limits = tuple(interval_of(finite))
            values[model] = ContextChange(fmean(bits), std, limits, len(bits), mean)
    return values


def interval_of(changes: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the 95 % interval of a mean change in bits per byte, over seeds and dialogues; empty
    if there are too few.

    It is that of a difference between two contenders, of which the other is constant.
    """
    values = np.array([change["bits_per_byte"] for change in changes], dtype=np.float64)
    left_out = np.array([change["left_out"] for change in changes], dtype=np.float64)
    if left_out.shape[1] < LEAST_DIALOGUES or not np.isfinite(values).all():
        return []
    runs = Runs(values, left_out)
    constant = Runs(np.zeros(1), np.zeros((1, left_out.shape[1])))
    estimate = interval(runs, constant, variances(runs, constant), LEVEL)
    return [estimate.low, estimate.high]


def _fingerprint(run: Run, sample: Sequence[Example]) -> str:
    texts = [
        [
            example.id,
            *(
                (turn.speaker, turn.text)
                for turn in (*example.facts, *example.context, example.response)
            ),
        ]
        for example in sample
    ]
    return hash_of(
        [SETTINGS, texts, run.weights, to_dict(run.recipe)["model"], run.recipe.data.max_source]
    )
