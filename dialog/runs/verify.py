"""Compare the files of a run folder with the hashes in its manifests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dialog.errors import UserError
from dialog.runs.folder import BEST, CHECKPOINTS, RECIPE, SUMMARY, WEIGHTS, weights_remedy
from dialog.training.checkpoints.manifest import MANIFEST, is_intact, read_manifest

CHECKED = ("", CHECKPOINTS)
"""Folders with a manifest, below a run folder."""


@dataclass(frozen=True)
class FileState:
    """A file of a run folder: ``intact``, ``changed`` or ``missing``, and what to do about it."""

    file: str
    state: str
    remedy: str = ""


def verify(run: Path) -> list[FileState]:
    """Return the state of each file that a manifest of the run folder lists.

    Raises:
        UserError: not a run folder, or a folder without a manifest, or with a damaged one.
    """
    if not (run / RECIPE).is_file() and not (run / MANIFEST).is_file():
        raise UserError(f"{run} is not a run folder: it has neither {RECIPE} nor {MANIFEST}")
    states = {}
    for folder in CHECKED:
        hashes = read_manifest(run / folder)
        if hashes is None and not folder:
            raise UserError(
                f"{run}: cannot be verified, it has no {MANIFEST}; restore it, or write one for the files as they are "
                f"with train --resume {run}"
            )
        for name in sorted(hashes or {}):
            if not name.startswith("."):  # of a file that is being replaced
                file = (Path(folder) / name).as_posix()
                states[file] = state_of(run / file)
    if WEIGHTS not in states and (run / BEST).is_file():
        states[WEIGHTS] = state_of(run / WEIGHTS)
    return [FileState(file, state, remedy(run, file, states)) for file, state in states.items()]


def state_of(path: Path) -> str:
    """Return ``intact``, ``changed`` or ``missing``."""
    if not path.is_file():
        return "missing"
    return "intact" if is_intact(path) else "changed"


def remedy(run: Path, file: str, states: dict[str, str]) -> str:
    """Return what to do about a file; nothing if it is intact."""
    if states[file] == "intact":
        return ""
    resume = f"dialog-seq2seq train --resume {run}"
    if file == WEIGHTS and states.get(BEST, "intact") == "intact":
        return weights_remedy(run)
    if file == f"{CHECKPOINTS}/last.ckpt" and states.get(f"{CHECKPOINTS}/previous.ckpt") == "intact":
        return f"not needed; {resume} continues from previous.ckpt"
    if file == BEST and states.get(WEIGHTS) == "intact":
        return f"not needed; its weights are in {WEIGHTS}"
    if file == f"{CHECKPOINTS}/previous.ckpt":
        return "not needed; the next save replaces it"
    if file.startswith(CHECKPOINTS) and (run / SUMMARY).is_file():
        return "not needed unless the training is extended"
    return "restore it from a copy, or train again"
