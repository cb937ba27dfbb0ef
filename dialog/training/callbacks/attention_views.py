"""Attention maps of a training: their files, and images, a table and a page for a tracker.

What is logged is called in the tracker's thread.

Shapes: H heads, T response tokens, S source tokens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dialog.analysis.attention.maps import rounded
from dialog.analysis.attention.sums import coverage_sums, row_sums
from dialog.atomic import replacing, write_text
from dialog.report.drawing.attention.packing import axes_of, by_character, maps_of
from dialog.report.drawing.attention.page import training_page
from dialog.report.drawing.image import heatmap_grid
from dialog.training.loggers.background import MediaLogger, PageLogger

DIGITS = 7
"""Decimals of a weight in JSON; the arrays have all."""


def write_maps(folder: Path, step: int, row: int, reading: Mapping[str, Any]) -> None:
    """Write ``step-<n>/<row>.json`` in the format of ``dialog attention``, and ``<row>.npz`` beside
    it.

    The .npz has the exact weights [H, T, S] of each map as compressed float32, by name, and what
    else is in the JSON as text under ``reading``.
    """
    path = folder / f"step-{step}" / f"{row}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    arrays: dict[str, Any] = {one["name"]: one["weights"] for one in reading["maps"]}
    maps = [{**one, "weights": rounded(one["weights"], DIGITS)} for one in reading["maps"]]
    write_text(path, json.dumps({**reading, "maps": maps}, ensure_ascii=False))
    labels = [
        {key: value for key, value in one.items() if key != "weights"} for one in reading["maps"]
    ]
    with replacing(path.with_suffix(".npz")) as new, new.open("wb") as file:
        np.savez_compressed(
            file, reading=np.array(json.dumps({**reading, "maps": labels})), **arrays
        )


def read_maps(path: Path) -> dict[str, Any]:
    """Read a .npz of `write_maps`; weights are arrays."""
    with np.load(path) as stored:
        reading: dict[str, Any] = json.loads(str(stored["reading"]))
        maps = [{**one, "weights": stored[one["name"]]} for one in reading["maps"]]
    return {**reading, "maps": maps}


def stored_steps(folder: Path) -> list[int]:
    """Return the steps of which maps are stored, in order."""
    return sorted(int(path.name.removeprefix("step-")) for path in folder.glob("step-*"))


IMAGES = 1
"""Number of examples that are drawn as images, which take most of the time; page and table have
all.
"""
MOST_STEPS = 8
"""Steps of the page: first, last, and others evenly between them."""
COLUMNS = [
    "step",
    "example",
    "module",
    "head",
    "context",
    "response",
    "strongest",
    "entropy",
    "sharpness",
    "coverage",
]

Readings = Mapping[int, Mapping[str, Any]]
"""Maps of examples by row of the validation split, in the format of ``dialog attention``."""


def log_images(logger: MediaLogger, readings: Readings, step: int) -> None:
    """Log one image per attention module of the first `IMAGES` examples, with one panel per
    head.
    """
    images = {}
    for row, reading in islice(readings.items(), IMAGES):
        axes = axes_of(reading)
        for tokens_map in maps_of(reading):
            one, whole = by_character(tokens_map, axes)
            rows = whole[one.rows].tokens
            columns = whole[one.columns].tokens
            image = heatmap_grid(one.weights, rows=rows, columns=columns, title=one.name)
            images[f"attention/{row}/{one.name}"] = image
    logger.log_images(images, step)


def log_table(logger: PageLogger, readings: Readings, step: int) -> None:
    """Log the tokens, the strongest source token of each response token and statistics, one row per
    head.

    Each validation logs a table of its own under one key: a table that is logged again with more
    rows is not uploaded again.
    """
    rows = [
        table_row
        for row, reading in readings.items()
        for table_row in table_rows(reading, step, row)
    ]
    logger.log_table("attention/heads", COLUMNS, rows, step)


def table_rows(reading: Mapping[str, Any], step: int, row: int) -> list[list[str | int | float]]:
    """Return the `COLUMNS` of each head of the cross-attention over tokens."""
    axes = axes_of(reading)
    context = axes["source"].tokens
    response = axes["target"].tokens
    rows: list[list[str | int | float]] = []
    for one in maps_of(reading):
        if (one.kind, one.columns) != ("cross", "source"):
            continue
        weights = torch.from_numpy(one.weights).unsqueeze(0)  # [1, H, T, S]
        real, columns = (torch.ones(1, size, dtype=torch.bool) for size in weights.shape[2:])
        sums = row_sums(weights, real, columns.sum(1, keepdim=True).expand_as(real))
        sums |= coverage_sums(weights, real, columns)
        for head, heads_weights in enumerate(one.weights):
            strongest = [context[place] for place in heads_weights.argmax(-1)]
            pairs = " ".join(
                f"{token}→{source}" for token, source in zip(response, strongest, strict=True)
            )
            values = [float(sums[name].total[head] / sums[name].number) for name in COLUMNS[-3:]]
            texts = [" ".join(context), " ".join(response), pairs]
            rows.append([step, row, one.name, head, *texts, *(round(value, 4) for value in values)])
    return rows


def log_panel(logger: PageLogger, folder: Path, step: int) -> None:
    """Log the page of all steps so far, built from the stored maps."""
    logger.log_page("attention/panel", panel(folder, step), step)


def panel(folder: Path, last: int) -> str:
    """Return the page of the stored steps up to `last`: at most `MOST_STEPS` of them."""
    steps = [step for step in stored_steps(folder) if step <= last]
    places = sorted({*np.linspace(0, len(steps) - 1, MOST_STEPS).round().astype(int).tolist()})
    steps = [steps[place] for place in places]
    rows = sorted(int(path.stem) for path in (folder / f"step-{last}").glob("*.npz"))
    paths = {row: {step: folder / f"step-{step}" / f"{row}.npz" for step in steps} for row in rows}
    return training_page(
        {
            row: [
                (f"step {step:,}", read_maps(path))
                for step, path in steps_of_row.items()
                if path.exists()
            ]
            for row, steps_of_row in paths.items()
        }
    )
