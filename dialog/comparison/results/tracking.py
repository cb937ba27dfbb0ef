"""Log the tables of a comparison to the tracker of its recipes, as a run of its own in the group of
its runs.
"""

from __future__ import annotations

import logging
from pathlib import Path

from dialog.comparison.grid.folder import Grid
from dialog.config.components import Component
from dialog.report.formats.results import Difference, Results, SeedMean

log = logging.getLogger("dialog")


def log_comparison(grid: Grid, results: Results) -> None:
    """Log summary, differences and verdict to the first logger of the recipes; a failure is logged,
    never raised.
    """
    loggers = [
        contender.composed.recipe.logger
        for contender in grid.contenders
        if contender.kind == "recipe"
    ]
    component = next((logger for logger in loggers if logger.get("name") != "none"), None)
    if component is not None:
        try:
            log_tables(component, grid.folder, results)
        except Exception as error:  # of a tracker
            log.warning(
                "summary not logged to %s (%s: %s)", component["name"], type(error).__name__, error
            )


def log_tables(component: Component, folder: Path, results: Results) -> None:
    """Log the tables to one logger, whose files are in the comparison folder."""
    from dialog.training.loggers import MediaLogger, build_tracker, labelled

    group = folder.resolve().name
    logger = build_tracker(
        labelled(component, run_name=f"{group} summary", group=group, tags=["comparison"]), folder
    )
    if logger is None:
        return
    logger.submit(logger.tracker.log_metrics, means(results), 0)
    if isinstance(logger.tracker, MediaLogger):
        for name, (columns, rows) in tables(results).items():
            logger.submit(logger.tracker.log_table, name, columns, rows, 0)
    logger.close()


def means(results: Results) -> dict[str, float]:
    """Return the mean of each metric of each model over all dialogues, by ``model/metric``."""
    return {
        f"{model.name}/{metric}": entry.mean
        for model in results.models
        for metric, entry in model.means().items()
    }


def tables(results: Results) -> dict[str, tuple[list[str], list[list[str]]]]:
    """Return columns and rows of text of each table, by name."""
    summary = []
    for model in results.models:
        for subset, entries in model.summary.items():
            for metric, entry in entries.items():
                summary.append([model.name, subset, metric, *texts(entry, "mean", "std", "n")])
    fields = ["metric", "a", "b", "subset", "difference", "interval", "p", "p_holm", "decided"]
    return {
        "summary": (["model", "subset", "metric", "mean", "std", "n"], summary),
        "differences": (fields, [texts(entry, *fields) for entry in results.differences]),
        "verdict": (
            ["verdict"],
            [[text] for text in (*results.warnings, results.verdict) if text],
        ),
    }


def texts(entry: SeedMean | Difference, *fields: str) -> list[str]:
    """Return fields of an entry as text; numbers with six significant digits, null as nothing."""
    values = (getattr(entry, field) for field in fields)
    return ["" if value is None else text_of(value) for value in values]


def text_of(value: object) -> str:
    """Return a value as text."""
    if isinstance(value, list | tuple):
        return " to ".join(map(text_of, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)
