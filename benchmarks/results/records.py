"""Record the finished runs of a table: recipes/<corpus>/results/<name>.json, and tables in the README beside it.

A README has the table of an entry between ``<!-- results: NAME -->`` and ``<!-- end of results -->``; markers that are
missing are added at the end.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from entries import Entry
from tables import COMMAND, RESULTS, Table, plan_table

from dialog.atomic import write_text
from dialog.comparison.compare import covers
from dialog.comparison.grid.work import Work
from dialog.comparison.results.systems import FinishedRun, System, finished_systems
from dialog.escaping import to_json
from dialog.json_files import read_json
from dialog.recipes.measured import figure_of, metric_at, staleness
from dialog.report.completion import displayed
from dialog.report.formats.numbers import count, duration, hardware
from dialog.report.tables import metric_label
from dialog.runs.environment import environment
from dialog.runs.folder import ENVIRONMENT, commits_of

FORMAT = 1
START, END = "<!-- results: {} -->", "<!-- end of results -->"
DROPPED = {"baselines", "calibration", "signatures", "left_out", "generation", "data", "history", "weights"}
"""Parts of metrics.json that are not recorded."""
DIFFERENCE = ("metric", "a", "b", "subset", "difference", "interval", "p", "p_holm", "decided")
RUN = ("steps", "seconds", "target_tokens", "diverged")
DIGITS = 6
STALE = " †"
"""Mark of a run that is not current."""
log = logging.getLogger("dialog")


def record(entries: Sequence[Entry], output: Path, recipes: Path) -> None:
    """Write the records of all tables that have finished runs into a folder of recipes, and their READMEs."""
    now = environment()  # before a record that is written makes the checkout dirty
    for entry in entries:
        if entry.sweep:
            continue
        table = plan_table(entry, output, prepare=True)
        work = table.work()
        systems = finished_systems(work) if table.grid.contenders else []
        if not systems:
            log.info("%s: no finished run", entry.name)
            continue
        folder = recipes / entry.corpus
        content = content_of(table, work, systems, now)
        path = folder / "results" / f"{entry.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, compact(content))
        readme = folder / "README.md"
        text = readme.read_text(encoding="utf-8") if readme.is_file() else f"# {entry.corpus}\n"
        write_text(readme, with_table(text, entry.name, to_markdown(content)))
        log.info("%s: %s", entry.name, path)


def content_of(table: Table, work: Work, systems: Sequence[System], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a table: no weights and no responses, but metrics and learning curves of every run.

    `now` is the environment in which it is recorded.
    """
    entry = table.entry
    rows = {row.name: row for row in entry.rows}
    recipes = [
        {
            "name": system.name,
            "recipe": rows[system.name].recipe,
            "overrides": [*entry.overrides, *rows[system.name].overrides],
            "hash": table.hashes[system.name],
            "parameters": system.evaluated.model["parameters"].get("total"),
            "trials": system.evaluated.model["trials"],
            "runs": [run_of(run) for run in system.runs],
        }
        for system in systems
    ]
    results = table.grid.folder / RESULTS
    compared = read_json(results) if results.is_file() else {}
    if not compared or not covers(compared, work):
        compared = {}
    differences = [
        item for item in compared.get("differences", []) if item["metric"] in {*entry.columns, "bits_per_byte"}
    ]
    return {
        "format": FORMAT,
        "name": entry.name,
        "stage": entry.stage,
        "purpose": entry.purpose,
        "columns": list(entry.columns),
        "command": COMMAND.format(entry.name),
        "commit": now["git"],
        "date": f"{datetime.now():%Y-%m-%d}",
        "seeds": list(entry.seed_list),
        "environment": {key: now[key] for key in ("dialog", "torch", "cpu", "gpu")},
        "missing": [*missing_runs(work), *(f"{name} ({reason})" for name, reason in table.missing.items())],
        "notes": table.notes,
        "recipes": recipes,
        "verdict": displayed(compared)["verdict"] if compared else "",
        "differences": [{key: item.get(key) for key in DIFFERENCE} for item in differences],
    }


def run_of(run: FinishedRun) -> dict[str, Any]:
    """Return one run: where it was trained, its cost, its metrics and its learning curve as columns."""
    trained = read_json(run.folder / ENVIRONMENT, "time", "data")
    curve = [point for point in run.entry["curve"] if point["validation/bits_per_byte"] is not None]
    names = ("step", "epoch", "seconds", "validation/bits_per_byte")
    return {
        "seed": run.entry["seed"],
        "commits": commits_of(run.folder),
        "date": trained["time"][:10],
        "hardware": hardware(trained),
        "threads": trained["threads"],
        "data": trained["data"],
        "fingerprint": run.entry["metrics"].get("fingerprint"),
        **{key: run.entry[key] for key in RUN},
        "metrics": numbers(run.entry["metrics"]),
        "curve": {name: [point[name] for point in curve] for name in names},
    }


def missing_runs(work: Work) -> list[str]:
    """Return the names of the runs of a table that have not finished."""
    return [cell.name for cell in work.cells if not work.is_finished(cell)]


def numbers(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of nested metrics, without `DROPPED`."""
    kept: dict[str, Any] = {}
    for key, value in values.items():
        if key in DROPPED:
            continue
        if isinstance(value, Mapping):
            kept[key] = numbers(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            kept[key] = value
    return kept


def compact(content: dict[str, Any]) -> str:
    """Return indented JSON with six significant digits and lists of numbers on one line."""
    text = to_json(rounded(content), indent=1) + "\n"
    return re.sub(
        r"\[[\s\d.,e+-]+\]", lambda match: re.sub(r"\s+", " ", match[0]).replace("[ ", "[").replace(" ]", "]"), text
    )


def rounded(value: object) -> object:
    """Return nested values with rounded numbers."""
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


# ------------------------------------------------------------------ README


def with_table(text: str, name: str, table: str) -> str:
    """Return a README with the table of an entry between its markers, which are added if they are missing."""
    start = START.format(name)
    if start not in text:
        text = f"{text.rstrip()}\n\n{start}\n{END}\n"
    before, _, rest = text.partition(start)
    if END not in rest:
        rest = f"\n{END}{rest}"
    return f"{before}{start}\n{table}\n{rest[rest.index(END) :]}"


def to_markdown(record: Mapping[str, Any]) -> str:
    """Return the table of a record: a row for each recipe, and below it what it was made with.

    Runs that are not current are marked, and explained below; they stay until the queue has replaced them.
    """
    columns = record["columns"]
    head = ["recipe", *map(metric_label, columns), "parameters", "seeds", "steps", "training time"]
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    lines += ["| " + " | ".join([f"`{row['name']}`", *cells(row, columns)]) + " |" for row in record["recipes"]]
    reasons = dict.fromkeys(staleness(row, run, row["hash"]) for row in record["recipes"] for run in row["runs"])
    return "\n".join([*lines, "", *captions(record, [reason for reason in reasons if reason])])


def cells(row: Mapping[str, Any], columns: Sequence[str]) -> list[str]:
    """Return the columns of a recipe after its name: metrics, size, seeds and cost; `STALE` marks seeds."""
    runs = row["runs"]
    measured = {name: [run for run in runs if metric_at(run["metrics"], name) is not None] for name in columns}
    figures = {name: figure_of(some, name, "", "") for name, some in measured.items() if some}
    seeds = [f"{run['seed']}{STALE if staleness(row, run, row['hash']) else ''}" for run in runs]
    steps = sorted({run["steps"] for run in runs})
    seconds = sum(run["seconds"] for run in runs) / len(runs)
    return [
        *(figures[name].spread() if name in figures else "–" for name in columns),
        parameters(row),
        ", ".join(seeds),
        count(steps[0]) if len(steps) == 1 else f"{count(steps[0])} to {count(steps[-1])}",
        duration(seconds),
    ]


def parameters(row: Mapping[str, Any]) -> str:
    """Return the number of parameters; unknown if all runs diverged before their first validation."""
    return "–" if row["parameters"] is None else count(row["parameters"])


def captions(record: Mapping[str, Any], stale: Sequence[str]) -> list[str]:
    """Return the sentences below a table: command, commit, hardware, date, verdict, what is missing or not current.

    Args:
        record: Of the table.
        stale: Reasons why runs are not current.
    """
    runs = [run for row in record["recipes"] for run in row["runs"]]
    machines = ", ".join(
        dict.fromkeys(f"{run['hardware']}, {run['threads']} thread{'s' * (run['threads'] > 1)}" for run in runs)
    )
    commits = ", ".join(dict.fromkeys(commit for run in runs for commit in run["commits"]))
    days = sorted({run["date"] for run in runs})
    dates = " to ".join(dict.fromkeys([days[0], days[-1]]))
    lines = [
        f"`{record['command']}` at {commits}; {machines}; torch {record['environment']['torch']}; {dates}. "
        "Mean ± sample standard deviation over seeds; training time of one run."
    ]
    if record["verdict"]:
        lines += [f"Verdict: {record['verdict']}".replace("\n", "\n  ")]
    if stale:
        lines.append(f"{STALE.strip()} Not current: {'; '.join(stale)}.")
    if diverged := [
        f"{row['name']} seed {run['seed']}" for row in record["recipes"] for run in row["runs"] if run["diverged"]
    ]:
        lines.append(f"Diverged: {', '.join(diverged)}.")
    if record["missing"]:
        lines.append(f"Not measured yet: {', '.join(record['missing'])}.")
    lines += [f"{note}." for note in record["notes"]]
    return [f"* {line}" for line in lines]
