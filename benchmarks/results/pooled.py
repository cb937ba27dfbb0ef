"""Verdict on recorded runs whose output folders are gone, from their bits per byte per dialogue.

A record has the sums of each dialogue and no text, so seeds that were trained on several machines
can be compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dialog.analysis.measured import Measured
from dialog.comparison.statistics.measured import Sums
from dialog.comparison.statistics.section import DecisionPlan, statistics_section
from dialog.comparison.statistics.verdict import EvaluationSet
from dialog.metrics import BitsPerByte, Measurement
from dialog.report.short_names import relabelled, short_labels

METRIC = "bits_per_byte"
"""The metric of the sums: the primary metric of a verdict."""
SUMS = "dialogue_sums"
LEAKED = "leaked_dialogues"
"""Fields of a recorded run: the statistics of `METRIC`, a list [D] each, and the numbers of the
leaked dialogues.
"""


def dialogue_sums(measured: Measured) -> dict[str, Any]:
    """Return the fields `SUMS` and `LEAKED` of a run; empty if its references have no
    likelihood.
    """
    statistics = measured.measurement.statistics().get(METRIC)
    if statistics is None:
        return {}
    totals = Sums(statistics, measured.dialogues, BitsPerByte().value).totals  # [D, S]
    leaked = (
        None if measured.leaked is None else np.unique(measured.dialogues[measured.leaked]).tolist()
    )
    return {SUMS: totals.T.tolist(), LEAKED: leaked}


def pooled_verdict(recipes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return "verdict" and "differences" of recorded recipes in bits per byte.

    Both are empty for fewer than two recipes, for runs without sums, and for runs on different test
    sets.
    """
    runs = [run for row in recipes for run in row["runs"]]
    same = len({run["fingerprint"] for run in runs}) == 1
    if len(recipes) < 2 or not same or not all(run.get(SUMS) for run in runs):
        return {"verdict": "", "differences": []}
    evaluations = {row["name"]: [*map(measured_dialogues, row["runs"])] for row in recipes}
    section = statistics_section(
        evaluations,
        DecisionPlan(METRIC),
        {row["name"]: [run["seed"] for run in row["runs"]] for row in recipes},
        test_set=EvaluationSet(
            corpus=recipes[0]["name"].partition("/")[0],
            examples=runs[0].get("metrics", {}).get("examples"),
            dialogues=len(next(iter(evaluations.values()))[0].rows),
        ),
    )
    _, labels = short_labels([*evaluations])
    verdict = relabelled(section.verdict, dict(zip(evaluations, labels, strict=True)))
    return {"verdict": verdict, "differences": [asdict(one) for one in section.differences]}


def measured_dialogues(run: Mapping[str, Any]) -> Measured:
    """Return a recorded run as if each dialogue were one response."""
    statistics = np.array(run[SUMS], dtype=np.float64).T  # [D, S]
    rows = [{"id": str(number)} for number in range(len(statistics))]
    measurement = Measurement({METRIC: BitsPerByte()}, statistics={METRIC: statistics})
    return Measured(rows, measurement, mask(run[LEAKED], len(statistics)))


def mask(numbers: Sequence[int] | None, length: int) -> NDArray[np.bool_] | None:
    """Return a mask [length] of these numbers."""
    return None if numbers is None else np.isin(np.arange(length), numbers)
