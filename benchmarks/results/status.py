"""The state of the queue: what is finished, what is running, what is left with its estimate."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from pathlib import Path

from entries import Entry, sweep_folder
from tables import plan_table

from dialog.atomic import lock
from dialog.comparison.grid.folder import Cell, is_diverged, is_trained
from dialog.comparison.grid.progress import last_line, state_of
from dialog.errors import UserError
from dialog.json_files import read_json
from dialog.report.formats.numbers import duration
from dialog.runs.folder import METRICS, RECIPE, commits_of
from dialog.tuning.results import RESULTS


def print_status(entries: Sequence[Entry], output: Path, queue: Sequence[Entry]) -> None:
    """Print a line for each run and sweep of the entries, the hours left of each stage, and runs
    not of the queue.
    """
    logging.getLogger("dialog").setLevel(logging.WARNING)
    left: dict[str, float] = {}
    used: dict[object, str] = {}
    for entry in entries:
        print(f"{entry.stage} {entry.name}: {entry.purpose}")
        if entry.rows and not entry.seed_list:
            print("  all seeds are recorded")
            continue
        rows = sweep_rows(entry, output) if entry.sweep else table_rows(entry, output, used)
        width = max(len(name) for name, _, _ in rows)
        for name, state, hours in rows:
            print(
                f"  {name:<{width}}  {state}"
                + (f"; about {duration(3600 * hours)} left" if hours else "")
            )
        left[entry.stage] = left.get(entry.stage, 0.0) + sum(hours for _, _, hours in rows)
    stages = ", ".join(f"{stage} {hours:.1f}" for stage, hours in left.items())
    print(f"core hours left, by stage: {stages or 'none'}; in all {sum(left.values()):.1f}")
    for entry in queue:
        if not entry.sweep and entry not in entries:
            table_rows(entry, output, used)  # marks its runs
    others = [
        path.parent.name
        for path in sorted(output.glob(f"*/{RECIPE}"))
        if path.parent.resolve() not in used
    ]
    if others:
        print(f"runs of other recipes, or of these before a change: {', '.join(others)}")


def table_rows(entry: Entry, output: Path, used: dict[object, str]) -> list[tuple[str, str, float]]:
    """Return name, state and hours left of each run; a run that another table has too is counted
    there.
    """
    table = plan_table(entry, output, prepare=False)
    hours = {row.name: row.hours for row in entry.rows}
    rows = []
    for cell in table.grid.cells():
        used[cell.folder] = entry.name
        owner = used.setdefault((cell.contender.hash, cell.seed), entry.name)
        state, left = cell_state(cell, hours[cell.contender.name])
        rows.append(
            (cell.name, state, left)
            if owner == entry.name
            else (cell.name, f"{state}, see {owner}", 0.0)
        )
    for row in entry.rows:
        if row.name in table.missing:
            runs = [
                (entry.tuned_by, row.recipe, entry.overrides, row.overrides, seed)
                for seed in entry.seed_list
            ]
            left = row.hours * sum(used.setdefault(run, entry.name) == entry.name for run in runs)
            rows.append((row.name, table.missing[row.name], left))
    return rows


def cell_state(cell: Cell, hours: float) -> tuple[str, float]:
    """Return the state of a run, and the core hours left: its estimate, or what its speed so far
    predicts if less.

    Its speed predicts the time to its last epoch; it may stop earlier, so the state calls that "at
    most".
    """
    progress = state_of(cell)
    spent = (progress.seconds or 0.0) / 3600
    if progress.fraction >= 1:
        state = "diverged" if is_diverged(cell.folder) else "finished"
        return f"{state} in {duration(3600 * spent)}, at {', '.join(commits_of(cell.folder))}", 0.0
    if is_trained(cell.folder):
        held = is_locked(cell.place.with_name(f"{cell.place.name}.lock"))
        return "being evaluated" if held else "trained, not evaluated", 0.0
    after = f" after {duration(3600 * spent)}" if spent else ""
    most = hours if progress.left is None else progress.left / 3600
    left = min(hours - spent, most) if hours > spent else most
    limit = f", at most {duration(3600 * most)} more" if most > left else ""
    if is_locked(cell.folder / ".lock"):
        return f"running{after}: {heartbeat(cell.folder)}{limit}", left
    if cell.error_file.is_file():
        return f"failed{after}: {read_json(cell.error_file, 'message')['message']}", left
    return (
        f"stopped{after}: {heartbeat(cell.folder)}{limit}"
        if cell.folder.is_dir()
        else "not started"
    ), left


def heartbeat(folder: Path) -> str:
    """Return step and epoch of the last logged line, and its age."""
    line = last_line(folder / METRICS)
    if line is None:
        return "nothing logged yet"
    age = time.time() - (folder / METRICS).stat().st_mtime
    return f"step {line['step']:,}, epoch {line['epoch']}, logged {duration(max(age, 0.0))} ago"


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock."""
    if not path.is_file():
        return False
    with lock(path, shared=True) as free:
        return not free


def sweep_rows(entry: Entry, output: Path) -> list[tuple[str, str, float]]:
    """Return name, state and hours left of a sweep."""
    folder = sweep_folder(output, entry.name)
    try:
        results = read_json(folder / RESULTS, "recipes")
    except UserError:
        return [(" ".join(entry.sweep), "not started", entry.hours)]
    share = entry.hours / len(results["recipes"])
    rows = []
    for recipe in results["recipes"]:
        ended = recipe["spent"]["trials"]
        state = f"{ended} of {entry.trials} trials, {recipe['spent']['pruned']} pruned"
        rows.append((recipe["name"], state, share * max(0.0, 1 - ended / entry.trials)))
    return rows
