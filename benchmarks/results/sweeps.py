"""Sweeps of the queue; without their runs they are recorded beside the queue, in sweeps/, and
continued from there.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from entries import Entry, sweep_folder
from tables import COMMAND

from dialog.atomic import write_json
from dialog.cli.sweep import sweep
from dialog.json_files import read_json
from dialog.report.formats.numbers import count, duration
from dialog.report.tables import metric_label
from dialog.runs.folder import environment
from dialog.tuning.results import RESULTS, RUNS

log = logging.getLogger("dialog")
RECORDED = "recorded.json"
"""In a recorded sweep: commit, processor and day of the recording."""


def restore_sweep(entry: Entry, output: Path, recorded: Path) -> None:
    """Copy a sweep into the output folder from the folder of recorded ones, unless that has as many
    trials.
    """
    folder = sweep_folder(output, entry.name)
    copy = recorded / entry.name
    if trials_in(copy) <= trials_in(folder):
        return
    if (folder / RUNS).is_dir():
        log.warning(
            "%s: the recorded sweep has more trials; remove %s to continue from there",
            entry.name,
            folder,
        )
        return
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(copy, folder)


def trials_in(folder: Path) -> int:
    """Return the number of trials of a sweep, 0 without results."""
    if not (folder / RESULTS).is_file():
        return 0
    return sum(
        recipe["spent"]["trials"] for recipe in read_json(folder / RESULTS, "recipes")["recipes"]
    )


def run_sweep(entry: Entry, output: Path, advice: str) -> None:
    """Start or resume a sweep; its trials run one at a time.

    `advice` tells how to continue the queue.
    """
    folder = sweep_folder(output, entry.name)
    arguments = ["--resume", str(folder)]
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        space = ["--space", entry.space] if entry.space else []
        arguments = [*entry.sweep, *entry.overrides, *space, "--output", str(folder)]
    try:
        sweep.main([*arguments, "--trials", str(entry.trials)], standalone_mode=False)
    except SystemExit:  # after a signal; the sweep has told how to resume itself
        log.info("the queue: %s", advice)
        raise


def record_sweep(entry: Entry, output: Path, recorded: Path) -> None:
    """Copy a sweep without its runs to the folder of recorded ones, with `RECORDED`."""
    now = environment()  # before anything is written
    folder = sweep_folder(output, entry.name)
    if not (folder / RESULTS).is_file():
        log.info("%s: no finished trial", entry.name)
        return
    if trials_in(folder) < trials_in(recorded / entry.name):
        log.warning(
            "%s: %s has fewer trials than the recorded sweep, which is kept", entry.name, folder
        )
        return
    shutil.rmtree(recorded / entry.name, ignore_errors=True)
    shutil.copytree(folder, recorded / entry.name, ignore=shutil.ignore_patterns(RUNS, ".*"))
    made = {"git": now["git"], "cpu": now["cpu"], "date": f"{datetime.now():%Y-%m-%d}"}
    write_json(recorded / entry.name / RECORDED, made)
    log.info("%s: %s", entry.name, recorded / entry.name)


def trial_table(entry: Entry, results: Mapping[str, Any], made: Mapping[str, Any]) -> str:
    """Return the table of all trials of a sweep, the best of each recipe in bold.

    Args:
        entry: Of the queue.
        results: Of the sweep.
        made: Content of `RECORDED`.
    """
    keys = list(
        dict.fromkeys(key for space in results["settings"]["spaces"].values() for key in space)
    )
    label = f"{metric_label('bits_per_byte')} (validation)"
    head = ["recipe", "trial", *(f"`{key}`" for key in keys), label, "steps", "time"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    for recipe in results["recipes"]:
        best = (recipe["best"] or {}).get("trial")
        for trial in recipe["trials"]:
            values = dict(override.split("=", 1) for override in trial["overrides"])
            value = "–" if trial["value"] is None else f"{trial['value']:.4f}"
            value = f"**{value}**" if trial["trial"] == best else value
            cells = [
                f"`{recipe['name']}`",
                str(trial["trial"]),
                *(values.get(key, "–") for key in keys),
                value + (f" ({trial['state']})" if trial["state"] != "complete" else ""),
                count(trial["steps"]),
                duration(trial["seconds"]),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    left = [
        (recipe["name"], entry.trials - recipe["spent"]["trials"]) for recipe in results["recipes"]
    ]
    command = COMMAND.format(entry.name)
    lines += [
        "",
        f"* `{command}`; recorded at {made['git']}, {made['cpu']}, {made['date']}.",
    ]
    if any(number > 0 for _, number in left):
        lines.append(
            "* Trials left:"
            f" {', '.join(f'{name} {number}' for name, number in left if number > 0)}."
        )
    return "\n".join(lines)
