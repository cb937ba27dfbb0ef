"""Attention maps of a training in files: one folder per step, one file per example.

Shapes: H heads, T rows, S columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dialog.analysis.attention.maps import rounded
from dialog.atomic import replacing, write_text

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
