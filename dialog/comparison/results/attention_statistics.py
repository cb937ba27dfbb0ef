"""Attention statistics of all runs of a comparison."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dialog.analysis.attention.split import SAMPLE
from dialog.comparison.grid.folder import SPLIT
from dialog.comparison.results.systems import FinishedRun, System
from dialog.config.schema import to_dict
from dialog.escaping import json_copy
from dialog.runs.evaluation.evaluated import read_added, write_added
from dialog.runs.folder import hash_of
from dialog.runs.run import Run

FILE = "attention.json"
FORMAT = 1
DIGITS = 5
log = logging.getLogger("dialog")


def attention_statistics(systems: Sequence[System]) -> list[dict[str, Any]]:
    """Return "statistics" of "attention" in results.json: the cross-attention of every evaluated
    run on the test split.

    Each has the model, the seed, and under "rows" the module, the head and the statistics of
    `split_statistics`, for each head, and for the mean, the rollout and equal weights, which can be
    compared between families. Values that are not defined are left out. A failure is logged and
    leaves the list empty.
    """
    try:
        return [
            {"model": system.name, "seed": finished.entry["seed"], "rows": rows}
            for system in systems
            if system.contender.kind != "responses"
            for finished in system.measured_runs
            if finished.evaluation is not None
            for rows in [measured_rows(finished, finished.evaluation)]
            if rows
        ]
    except Exception as error:  # the other results do not depend on it
        log.warning("attention statistics: not measured (%s: %s)", type(error).__name__, error)
        log.debug("where:", exc_info=True)
        return []


def measured_rows(finished: FinishedRun, evaluation: Path) -> list[dict[str, Any]]:
    """Return the rows of a run, from attention.json of its evaluation folder or measured and
    written to it.

    Empty for a model without cross-attention.
    """
    run = finished.load()
    if run.model.decoder.pointer is None:
        return []
    path = evaluation / FILE
    fingerprint = _fingerprint(run, finished.entry["metrics"])
    measured = read_added(path, "fingerprint", "rows")
    if measured is None or measured["fingerprint"] != fingerprint:
        finished.cell.check_named()
        log.info("measuring the attention of %s", finished.folder)
        measured = json_copy(
            {"fingerprint": fingerprint, **run.attention_statistics(SPLIT, quiet=True)}
        )
        write_added(path, measured)
    return [
        {
            name: round(value, DIGITS) if isinstance(value, float) else value
            for name, value in row.items()
            if value is not None
        }
        for row in measured["rows"]
        if "coverage" in row
    ]


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
