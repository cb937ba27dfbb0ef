"""Attention maps as one self-contained page: of one or more runs, or of the steps of a training."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import cycle
from typing import Any

import numpy as np
from markupsafe import Markup

from dialog.escaping import printable_json
from dialog.report.drawing.attention.packing import MOST_CELLS, SPEAKERS, pack
from dialog.report.drawing.attention.still import MOST_ROWS, StillMap, shade_styles, still_map
from dialog.report.drawing.scale import DIFFERENCE_ON_DARK, DIFFERENCE_ON_LIGHT, ON_DARK, ON_LIGHT
from dialog.report.page import joined, render_page, style_sheet
from dialog.report.terminal import truncate

PACKAGE = "dialog.report.drawing.attention"
SCRIPTS = ("explorer.js",)
LONG_DIALOGUE = 1500
"""Characters above which the page shows the dialogue on request only."""

LONGEST = 60
"""Columns of a response in the list of examples of a training."""

Readings = Sequence[tuple[str, Mapping[str, Any]]]
"""Labels and the maps of a response, as `Run.attention` returns them."""


def attention_page(
    readings: Readings,
    *,
    title: str,
    note: str = "",
    first: tuple[str, int | None] | None = None,
    folds_dialogue: bool = False,
) -> str:
    """Return a page of the maps of one response by one or more runs.

    Args:
        readings: One for each run.
        title: Name of the page.
        note: Sentence about the response, such as the search that generated it.
        first: Name of the map, and the head or None for the mean, that the page shows first.
        folds_dialogue: Whether the page shows the dialogue on request only, as it does with a long
            one.
    """
    packed = [pack(maps, label) for label, maps in readings]
    (unread, turns) = _dialogue(readings[0][1])
    response = readings[0][1].get("response", "")
    values = {
        "title": title,
        "note": note,
        "unread": unread,
        "turns": turns,
        "is_long": folds_dialogue
        or sum(map(len, (*(text for _, text in turns), response))) > LONG_DIALOGUE,
        "response": response,
        "notes": [note for one in packed for note in _labelled_notes(one)],
    }
    data = explorer_json([{"id": "", "readings": packed}], first=first)
    return render_page(
        PACKAGE,
        "page.html.j2",
        {**printable_json(values), "stills": stills(readings), "data": data},
        script=joined(PACKAGE, SCRIPTS),
        style=explorer_style(),
    )


def training_page(examples: Mapping[int, Readings]) -> str:
    """Return a page with a slider over training steps.

    As many examples are kept, the first one at least, as have together at most `MOST_CELLS`
    weights.

    Args:
        examples: For each row of the validation split, the labels of the steps and the maps, in the
            order of training.
    """
    shown = list(examples.items())
    while len(shown) > 1 and sum(_size(readings) for _, readings in shown) > MOST_CELLS:
        shown.pop()
    budget = MOST_CELLS // sum(len(readings) for _, readings in shown)
    packed: list[dict[str, Any]] = [
        {
            "id": f"{row}: {truncate(readings[-1][1].get('response', ''), LONGEST)}",
            "readings": [pack(maps, label, most_cells=budget) for label, maps in readings],
        }
        for row, readings in shown
    ]
    last = [readings[-1] for _, readings in shown]
    readings = [reading for example in packed for reading in example["readings"]]
    notes = {text for reading in readings for text in reading["notes"]}
    data = explorer_json(packed, second=False, slider=True)
    values = {"omitted": len(examples) - len(shown), "notes": sorted(notes)}
    return render_page(
        PACKAGE,
        "training.html.j2",
        {**printable_json(values), "stills": stills(last), "data": data},
        script=joined(PACKAGE, SCRIPTS),
        style=explorer_style(),
    )


def explorer_json(
    examples: Sequence[Mapping[str, Any]],
    *,
    first: tuple[str, int | None] | None = None,
    second: bool | None = None,
    slider: bool = False,
) -> Markup:
    """Return the data of `explorer.js` for a script element; texts cannot end the element.

    Args:
        examples: Each has an "id" and "readings", the results of `pack`.
        first: Name of the map and the head, or None for the mean, that is shown first.
        second: Whether two maps are shown side by side; by default, if an example has two readings.
        slider: Whether the readings of an example are steps of a training, chosen with a slider,
            the last one first.
    """
    data = {
        "examples": examples,
        "first": None if first is None else {"map": first[0], "head": first[1]},
        "second": len(examples[0]["readings"]) > 1 if second is None else second,
        "slider": slider,
        "scales": {
            "light": {"weights": ON_LIGHT, "differences": DIFFERENCE_ON_LIGHT},
            "dark": {"weights": ON_DARK, "differences": DIFFERENCE_ON_DARK},
        },
    }
    text = json.dumps(printable_json(data), ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c"))


def page_sources() -> tuple[str, str]:
    """Return the script and the style sheet of `attention_page`, for a page that frames it."""
    return joined(PACKAGE, SCRIPTS), style_sheet(explorer_style())


def explorer_style() -> str:
    """Return the style sheet of the component."""
    return (files(PACKAGE) / "explorer.css").read_text(encoding="utf-8") + shade_styles()


def stills(readings: Readings, *, rows: int = MOST_ROWS) -> list[StillMap]:
    """Return the tables that are shown without scripts, of at most `rows` rows each."""
    tables = (still_map(printable_json(maps), label, rows=rows) for label, maps in readings)
    return [table for table in tables if table is not None]


def _labelled_notes(packed: Mapping[str, Any]) -> list[str]:
    label = packed["label"]
    return [f"{label}: {note}" if label else note for note in packed["notes"]]


def _dialogue(reading: Mapping[str, Any]) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return speaker and text of the turns that the model does not read, and of those that it
    reads, if only in part.

    The speakers of unread turns, which have no names, alternate.
    """
    turns = [(SPEAKERS[turn["speaker"]], turn["text"]) for turn in reading.get("turns", [])]
    lines = [line for line in reading.get("context_lines", []) if line >= 0]
    first = min(lines, default=len(turns)) if turns else 0
    following = next(
        (speaker for speaker, _ in turns if speaker != SPEAKERS["fact"]), SPEAKERS["self"]
    )
    pair = (SPEAKERS["self"], SPEAKERS["other"])
    alternating = cycle(pair[::-1] if following == pair[0] else pair)
    unread = [*zip(alternating, reversed(reading.get("unread_turns", [])), strict=False)]
    return [*reversed(unread), *turns[:first]], turns[first:]


def _size(readings: Readings) -> int:
    return sum(np.asarray(one["weights"]).size for _, maps in readings for one in maps["maps"])
