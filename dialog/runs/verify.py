"""Compare the files of a run folder, and of its evaluations, with the hashes in their manifests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dialog.errors import UserError
from dialog.runs.evaluation.evaluated import FILES, METRICS
from dialog.runs.folder import BEST, CHECKPOINTS, RECIPE, SUMMARY, WEIGHTS, weights_remedy
from dialog.training.checkpoints.manifest import INPUTS, MANIFEST, is_intact, read_manifest

CHECKED = ("", CHECKPOINTS, "generation")
"""Folders with a manifest, below a run folder, beside evaluations."""
INTACT = "intact"
CHANGED = "changed"
MISSING = "missing"
DAMAGE = (CHANGED, MISSING)
"""States of files that differ from the manifest."""
EVALUATION = "evaluation"


@dataclass(frozen=True)
class FileState:
    """A file of a run folder: ``intact``, ``changed`` or ``missing``, and what to do about it.

    Also the folder of an evaluation: ``unverified`` if it has no manifest, ``outdated`` if the run
        has other weights.
    """

    file: str
    state: str
    remedy: str = ""


def verify(run: Path) -> list[FileState]:
    """Return the state of each file that a manifest of the run folder lists, and of its
    evaluations.

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
                f"{run}: cannot be verified, it has no {MANIFEST}; restore it, or write one for the"
                f" files as they are with train --resume {run}"
            )
        for name in sorted(hashes or {}):
            if not name.startswith("."):  # of a file that is being replaced
                file = (Path(folder) / name).as_posix()
                states[file] = state_of(run / file)
    if WEIGHTS not in states and (run / BEST).is_file():
        states[WEIGHTS] = state_of(run / WEIGHTS)
    own = [FileState(file, state, remedy(run, file, states)) for file, state in states.items()]
    weights = (read_manifest(run) or {}).get(WEIGHTS)
    evaluations = sorted(path for path in (run / EVALUATION).glob("*") if path.is_dir())
    return [
        *own,
        *(state for folder in evaluations for state in evaluation_states(folder, weights)),
    ]


def evaluation_states(folder: Path, weights: str | None) -> Iterator[FileState]:
    """Yield the state of each file of an evaluation; nothing for one that was interrupted.

    Args:
        folder: Folder of the evaluation.
        weights: SHA-256 of the run's weights.
    """
    place = f"{EVALUATION}/{folder.name}"
    again = "evaluate the run again"
    hashes = read_manifest(folder)
    if hashes is None:
        if (folder / METRICS).is_file():
            yield FileState(place, "unverified", f"it has no {MANIFEST}; {again} to write one")
        return
    if weights is not None and hashes.get("weights") not in (weights, None):
        yield FileState(
            place,
            "outdated",
            f"{WEIGHTS} has changed since; {again} to measure the present weights",
        )
    listed = {name for name in hashes if name not in INPUTS and not name.startswith(".")}
    for name in sorted(listed | {name for name in FILES if (folder / name).is_file()}):
        state = state_of(folder / name)
        advice = (
            f"{again}, or restore it from a copy"
            if name in FILES
            else "not needed; compare measures it again"
        )
        yield FileState(f"{place}/{name}", state, "" if state == INTACT else advice)


def state_of(path: Path) -> str:
    """Return ``intact``, ``changed`` or ``missing``."""
    if not path.is_file():
        return MISSING
    return INTACT if is_intact(path) else CHANGED


def remedy(run: Path, file: str, states: dict[str, str]) -> str:
    """Return what to do about a file; nothing if it is intact."""
    if states[file] == INTACT:
        return ""
    resume = f"python -m dialog train --resume {run}"
    if file == WEIGHTS and states.get(BEST, INTACT) == INTACT:
        return weights_remedy(run)
    if file == f"{CHECKPOINTS}/last.ckpt" and states.get(f"{CHECKPOINTS}/previous.ckpt") == INTACT:
        return f"not needed; {resume} continues from previous.ckpt"
    if file == BEST and states.get(WEIGHTS) == INTACT:
        return f"not needed; its weights are in {WEIGHTS}"
    if file == f"{CHECKPOINTS}/previous.ckpt":
        return "not needed; the next save replaces it"
    if file == "generation/settings.jsonl":
        return "restore it from a copy, or remove it; tune-generation measures the settings again"
    if file.startswith(CHECKPOINTS) and (run / SUMMARY).is_file():
        return "not needed unless the training is extended"
    return "restore it from a copy, or train again"
