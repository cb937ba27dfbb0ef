"""Results of tune-generation: tables in the terminal, plots, and a self-contained page."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from dialog.atomic import replacing, write_json, write_text
from dialog.escaping import one_line, printable_json
from dialog.report.drawing.axes import SERIES
from dialog.report.drawing.canvas import write_svg
from dialog.report.drawing.frontier import FrontierPoint, Panel, frontier_image, frontier_svg
from dialog.report.formats.metrics import metric_display
from dialog.report.formats.numbers import duration
from dialog.report.page import render_page
from dialog.report.terminal import display_width
from dialog.tuning.generation.rule import on_frontier
from dialog.tuning.generation.sample import DIVERSITY, Sample

COLUMNS = (
    "f1",
    "sacrebleu",
    "bleu_2",
    "distinct_2",
    DIVERSITY,
    "entropy_2",
    "length_mean",
    "repetition_3",
)
AXES = ((DIVERSITY, "f1"), (DIVERSITY, "bleu_2"), ("entropy_2", "f1"), ("entropy_2", "bleu_2"))
"""Diversity and quality of each panel."""
SHOWN = 12
SEED = 0
"""Examples on the page, drawn with this seed."""

Results = Mapping[str, Any]
"""Content of results.json."""


def table_lines(results: Results) -> Iterator[str]:
    """Yield a table for each run, and the selected setting with its rule."""
    displays = [metric_display(name) for name in COLUMNS]
    heads = [display.label for display in displays]
    for run in results["runs"]:
        rows = [(_marked(row), [*_cells(row), duration(row["seconds"])]) for row in run["settings"]]
        rows.append(("  references", [*_cells(results["human"]), ""]))
        width = max(display_width(name) for name, _ in rows)
        yield f"{one_line(run['name'])}: {sample_words(results)}"
        yield _line("", width, [*heads, "Time"], heads)
        yield from (_line(name, width, cells, heads) for name, cells in rows)
        yield selected_words(results, run)
        model = "ensemble" if run["ensemble"] else "run"
        yield (
            f"generation={Path(run['file']).stem} selects it for this {model}:"
            f" {one_line(run['file'])}"
        )
        yield ""
    yield "+ no other setting is better in both F1 and rarefied distinct-2; * selected"


def sample_words(results: Results) -> str:
    """Return which examples were measured, and how precise a mean F1 is."""
    errors = [row["f1_standard_error"] for run in results["runs"] for row in run["settings"]]
    count = f"{results['examples']:,} of {results['available']:,} validation examples"
    return f"{count}, standard error of F1 up to {max(errors):.2f}"


def selected_words(results: Results, run: Results) -> str:
    """Return the selected setting of a run, and why it was selected."""
    why = f"{one_line(run['selected'])}: {results['rule']['words']}"
    return (
        why
        if run["conditions_met"]
        else f"{why}; no setting meets the conditions, this one comes nearest"
    )


def write_pages(results: Results, sample: Sample, folder: Path) -> Path:
    """Write results.json, frontier.svg, frontier.png and frontier.html to a folder, which is
    returned.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = [one_line(run["name"]) for run in results["runs"]]
    charts = panels(results)
    write_json(folder / "results.json", results)
    write_svg(folder / "frontier.svg", frontier_svg(charts, names))
    with replacing(folder / "frontier.png") as file:
        frontier_image(charts, names).save(file, format="PNG")
    write_text(folder / "frontier.html", page(results, sample))
    return folder


def panels(results: Results) -> list[Panel]:
    """Return quality against diversity: one panel for each pair of metrics."""
    charts = []
    for across, up in AXES:
        points = [
            FrontierPoint(
                row["name"],
                row["generation"]["search"]["name"],
                *place,
                number,
                best,
                row["selected"],
            )
            for number, run in enumerate(results["runs"])
            for row, place, best in _placed(run["settings"], across, up)
        ]
        verticals = [(results["human"][across], "references")]
        bounds = [
            condition["bound"]
            for condition in results["rule"]["conditions"]
            if condition["metric"] == across
        ]
        verticals += [(bound, "rule") for bound in bounds]
        charts.append(
            Panel(metric_display(across).label, metric_display(up).label, points, verticals)
        )
    return charts


def _placed(
    settings: Sequence[Mapping[str, Any]], across: str, up: str
) -> Iterator[tuple[Mapping[str, Any], tuple[float, float], bool]]:
    """Yield each setting with its two metrics, and whether it is on their frontier."""
    places = [(row[across], row[up]) for row in settings]
    yield from zip(settings, places, on_frontier(places), strict=True)


def page(results: Results, sample: Sample) -> str:
    """Return the page: plot, selected settings, tables, and responses of some settings to the same
    contexts.
    """
    texts = printable_json({**results, "sample": sample_words(results)})
    places = sorted(
        random.Random(SEED).sample(range(len(sample.examples)), min(SHOWN, len(sample.examples)))
    )
    displays = [metric_display(name) for name in COLUMNS]
    values = {
        "names": [run["name"] for run in texts["runs"]],
        "rule": texts["rule"]["words"],
        "facts": texts["sample"],
        "chart": Markup(
            frontier_svg(panels(results), [one_line(run["name"]) for run in results["runs"]])
        ),
        "series": SERIES,
        "heads": [display.label for display in displays],
        "metrics": displays,
        "tables": [
            {
                "name": run["name"],
                "words": selected_words(results, run),
                "file": run["file"],
                "rows": [
                    {
                        "name": row["name"],
                        "cells": [*_cells(row), duration(row["seconds"])],
                        "selected": row["selected"],
                    }
                    for row in run["settings"]
                ],
            }
            for run in texts["runs"]
        ],
        "human": [*_cells(results["human"]), ""],
        "examples": printable_json([_shown(results, sample, place) for place in places]),
    }
    return render_page("dialog.tuning.generation", "frontier.html.j2", values)


def _shown(results: Results, sample: Sample, place: int) -> dict[str, Any]:
    """Return an example with the responses of the settings on the frontier, the selected one
    first.
    """
    example = sample.examples[place]
    answers = []
    for number, run in enumerate(results["runs"]):
        for row in sorted(run["settings"], key=lambda row: not row["selected"]):
            if row["selected"] or row["frontier"]:
                response = row["responses"][place]
                answers.append((number, row["name"], response, row["selected"]))
    context = [turn.text for turn in example.context[-4:]]
    return {
        "id": example.id,
        "context": context,
        "reference": example.response.text,
        "answers": answers,
    }


def _cells(values: Mapping[str, float]) -> list[str]:
    return [metric_display(name).format(values[name]) for name in COLUMNS]


def _marked(row: Mapping[str, Any]) -> str:
    mark = "*" if row["selected"] else " "
    return f"{mark}{'+' if row['frontier'] else ' '}{one_line(row['name'])}"


def _line(name: str, width: int, cells: Sequence[str], heads: Sequence[str]) -> str:
    widths = [max(9, len(head) + 2) for head in heads] + [12]
    columns = "".join(f"{cell:>{size}}" for cell, size in zip(cells, widths, strict=True))
    return f"{name}{' ' * (width - display_width(name))}{columns}".rstrip()
