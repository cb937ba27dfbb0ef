"""The attention maps of a few examples over the steps of a training, as one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dialog.escaping import printable_json
from dialog.report.drawing.attention.packing import MOST_CELLS, pack
from dialog.report.drawing.attention.page import (
    PACKAGE,
    Readings,
    explorer_json,
    explorer_style,
    stills,
)
from dialog.report.page import render_page

LONGEST = 60
"""Characters of a response in the list of examples."""


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
            "id": f"{row}: {_shortened(readings[-1][1].get('response', ''))}",
            "readings": [pack(maps, label, most_cells=budget) for label, maps in readings],
        }
        for row, readings in shown
    ]
    last = [readings[-1] for _, readings in shown]
    notes = {
        text for example in packed for reading in example["readings"] for text in reading["notes"]
    }
    data = explorer_json(packed, second=False, slider=True)
    values = {"omitted": len(examples) - len(shown), "notes": sorted(notes)}
    return render_page(
        PACKAGE,
        "training.html.j2",
        {**printable_json(values), "stills": stills(last), "data": data},
        scripts=("explorer.js",),
        style=explorer_style(),
    )


def _size(readings: Readings) -> int:
    return sum(np.asarray(one["weights"]).size for _, maps in readings for one in maps["maps"])


def _shortened(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
