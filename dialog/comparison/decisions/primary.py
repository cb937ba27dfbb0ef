"""The primary metric of a comparison, which is tested first, and the metrics that are tested
after it.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from itertools import pairwise
from pathlib import Path

from dialog.comparison.decisions.looks import LOOKS
from dialog.errors import UserError
from dialog.json_files import read_json_lines
from dialog.report.formats.metrics import METRIC_DISPLAYS, metric_display

LIKELIHOOD = "bits_per_byte"
OVERLAP = "f1"
"""Default: bits per byte, or F1 if a contender has no likelihood."""
OF_LIKELIHOOD = ("bits_per_byte", "perplexity_word")
"""Metrics that need the likelihood of each reference, in nats."""


def check_primary(metric: str) -> None:
    """Check the name of a primary metric.

    Raises:
        UserError: an unknown metric, or one without a better direction or a test.
    """
    display = METRIC_DISPLAYS.get(metric)
    choices = [name for name, one in METRIC_DISPLAYS.items() if one.better and one.tested]
    if display is None:
        raise UserError(f"--primary {metric}: unknown metric; choose one of {', '.join(choices)}")
    if not display.better:
        raise UserError(
            f"--primary {metric}: no direction of this metric is better, so it decides nothing;"
            f" choose one of {', '.join(choices)}"
        )
    if not display.tested:
        raise UserError(
            f"--primary {metric}: this metric has no test over dialogues; choose one of"
            f" {', '.join(choices)}"
        )


def has_likelihood(file: Path) -> bool:
    """Return whether a file of responses has the likelihood of each reference; plain text has
    none.
    """
    return file.suffix != ".txt" and all(
        line.get("nll") is not None for line in read_json_lines(file)
    )


def check_measured(metric: str, files: Collection[Path]) -> None:
    """Check that files of responses have what a primary metric needs.

    Raises:
        UserError: a file has no likelihood, and the metric needs it.
    """
    if metric not in OF_LIKELIHOOD:
        return
    for file in files:
        if not has_likelihood(file):
            raise UserError(
                f"{file}: has no nll, which the primary metric {metric} needs; give it in"
                f" every line, or start another comparison with --primary {OVERLAP}"
            )


def declared(
    folder: Path,
    primary: str,
    looks: int,
    files: Collection[Path],
    requested: str | None,
    requested_looks: int | None,
    *,
    commands: str = "",
) -> tuple[str, int]:
    """Return the primary metric and the number of looks of a comparison.

    Args:
        folder: Its folder.
        primary: The metric of the folder; empty if it has none yet.
        looks: The number of looks of the folder.
        files: Files of responses of all contenders.
        requested: ``--primary``, if given.
        requested_looks: ``--looks``, if given.
        commands: Earlier commands of the folder, whose ``--primary`` is kept.

    Raises:
        UserError: an unknown metric, or others than those with which the folder has results.
    """
    if requested is not None:
        check_primary(requested)
    if not primary or not (folder / LOOKS).is_file():
        # without results, the default still depends on the files
        kept = requested_primary(commands) or ("" if primary == LIKELIHOOD else primary)
        return requested or kept or default_primary(files), requested_looks or looks
    for option, value, chosen in (
        ("--primary", requested, primary),
        ("--looks", requested_looks, looks),
    ):
        if value not in (None, chosen):
            raise UserError(
                f"{option} {value}: {folder} has results with {chosen}; leave it out, or choose"
                " another --output"
            )
    return primary, looks


def requested_primary(commands: str) -> str:
    """Return the last ``--primary`` of the commands of a comparison, joined by ``&&``; empty
    without one.
    """
    try:
        words = shlex.split(commands)
    except ValueError:  # a damaged text, which compare has not written
        return ""
    values = [value for option, value in pairwise(words) if option == "--primary"]
    return values[-1] if values else ""


def default_primary(files: Collection[Path]) -> str:
    """Return the primary metric of a comparison with these files of responses."""
    return LIKELIHOOD if all(map(has_likelihood, files)) else OVERLAP


def metrics_to_test(metrics: Sequence[str], primary: str) -> list[str]:
    """Return the metrics that are tested, the primary one first: those with a better direction, one
    of each group that measures the same.
    """
    chosen: dict[str, str] = {}  # the metric of each group
    for metric in [primary, *metrics]:
        display = metric_display(metric)
        if metric in metrics and display.better:
            chosen.setdefault(display.same_as or metric, metric)
    return [*chosen.values()]
