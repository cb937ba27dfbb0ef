"""On which machines a run was trained: one that was moved and continued names each."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dialog.atomic import write_json
from dialog.comparison.grid.folder import is_trained
from dialog.json_files import read_json
from dialog.runs.folder import ENVIRONMENT, environment

MOVED = "moved.json"
"""In a run folder: the machines after that of environment.json, in order."""
KEYS = ("cpu", "gpu", "cores", "threads", "torch")
"""What a record has of a machine."""
THEN = ", then "
"""Between the machines of one run."""


def note_moves(folders: Iterable[Path], jobs: int) -> None:
    """Note in the folder of each run that has been started and not finished if this machine is
    another one.

    Jobs that train at a time share the threads of this process, as `run_jobs` gives them.
    """
    now = environment()
    now["threads"] = max(1, now["threads"] // jobs)
    for folder in folders:
        if not (folder / ENVIRONMENT).is_file() or is_trained(folder):
            continue
        _, *moved = machines = machines_of(folder)
        if any(machines[-1][key] != now[key] for key in KEYS):
            write_json(folder / MOVED, {"machines": [*moved, {key: now[key] for key in KEYS}]})


def machines_of(folder: Path) -> list[dict[str, Any]]:
    """Return the environments of a run: that in which it was started, and those in which it was
    continued.
    """
    moved = read_json(folder / MOVED, "machines")["machines"] if (folder / MOVED).is_file() else []
    return [read_json(folder / ENVIRONMENT, "time", "data", *KEYS), *moved]


def apart(sequences: Iterable[str]) -> list[str]:
    """Return what several runs have of their machines, without repetition; each is a text of
    `in_sequence`.
    """
    return list(dict.fromkeys(text for sequence in sequences for text in sequence.split(THEN)))


def in_sequence(texts: Iterable[str]) -> str:
    """Return what a run has of each machine as one text, without repetition."""
    return THEN.join(dict.fromkeys(texts))
