"""Record the finished runs of a table: records/<corpus>/<name>.json, and its table in the README of
the recipes.

Runs of the present recipe that the output folder lacks are taken from the records of the corpus:
tables share runs, the seeds of a table can be trained on several machines, and a lost output folder
loses no results. If it uses recorded runs, the verdict is about bits per byte alone, from the sums
per dialogue that each record has.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from operator import itemgetter
from pathlib import Path
from typing import Any

from entries import Entry, compose_row, overrides_of
from figures import PRIMARY
from machines import in_sequence, machines_of
from pooled import SUMS, dialogue_sums, pooled_verdict
from record_table import to_markdown, write_table
from tables import COMMAND, Table, compared, plan_table, trained_part

from dialog.analysis.attention.batch_maps import MEAN, UNIFORM
from dialog.atomic import write_text
from dialog.comparison.context_use import FILE as CONTEXT_USE
from dialog.comparison.grid.folder import contender_hash
from dialog.comparison.references import references_of
from dialog.comparison.results.attention import FILE as ATTENTION
from dialog.comparison.results.systems import FinishedRun, System, finished_systems
from dialog.errors import UserError
from dialog.escaping import to_json
from dialog.json_files import read_json
from dialog.report.formats.numbers import hardware
from dialog.report.formats.results import Results
from dialog.report.short_names import displayed
from dialog.runs.evaluation.evaluated import read_added
from dialog.runs.folder import commits_of, environment, read_recipe

FORMAT = 1
DROPPED = {
    "baselines",
    "calibration",
    "signatures",
    "left_out",
    "generation",
    "data",
    "weights",
    "head",
}
"""Parts of an evaluation's files that are not recorded."""
DIFFERENCE = ("metric", "a", "b", "subset", "difference", "interval", "p", "p_holm", "decided")
RUN = ("steps", "seconds", "target_tokens", "diverged")
DIGITS = 6
log = logging.getLogger("dialog")


def record(entries: Sequence[Entry], output: Path, records: Path, recipes: Path) -> None:
    """Write the records of all tables that have finished runs, and their tables in the READMEs of
    the recipes.
    """
    now = environment()  # before a record that is written makes the checkout dirty
    for entry in entries:
        table = plan_table(entry, output, prepare=True)
        systems = finished_systems(table.work()) if table.grid.contenders else []
        path = record_path(entry, records)
        earlier = (
            read_json(path, "recipes", "verdict", "differences")
            if path.is_file()
            else {"recipes": []}
        )
        content = rounded(
            with_recorded(content_of(table, systems, output, now), earlier, table, records)
        )
        if not systems and runs_in(content) <= runs_in(earlier):
            log.info("%s: no finished run", entry.name)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, compact(content))
        write_table(recipes / entry.corpus / "README.md", entry.name, to_markdown(content))
        log.info("%s: %s", entry.name, path)
        if len(content["recipes"]) > 1 and not content["verdict"]:
            log.warning("%s: recorded without a verdict; %s", entry.name, remedy(content))


def decide_again(entries: Sequence[Entry], records: Path) -> None:
    """Write the verdicts of records anew, by the present rules, from the sums of each dialogue.

    Only bits per byte are decided: secondary metrics keep their intervals on the whole test set.
    """
    for entry in entries:
        path = record_path(entry, records)
        if not path.is_file():
            continue
        content = read_json(path, "recipes", "differences")
        pooled = pooled_verdict(content["recipes"])
        if not pooled["verdict"]:
            log.warning("%s: keeps its verdict: runs without sums per dialogue", entry.name)
            continue
        others = [
            {**item, "p": None, "p_holm": None, "decided": False}
            for item in content["differences"]
            if item["metric"] != PRIMARY and item["subset"] == "all"
        ]
        differences = [*recorded_differences(pooled["differences"]), *others]
        decided = {**content, "verdict": pooled["verdict"], "differences": differences}
        write_text(path, compact(rounded(decided)))
        log.info("%s: %s", entry.name, pooled["verdict"])


def without_recorded(entry: Entry, output: Path, records: Path) -> Entry:
    """Return an entry without the recipes that are recorded with all seeds, and without seeds that
    no other one lacks.

    Runs of a recipe that has changed since do not count.
    """
    if entry.sweep:
        return entry
    hashes = {}
    for row in entry.rows:
        with suppress(UserError):  # which processing the entry reports
            hashes[row.name] = contender_hash(compose_row(entry, row, output).recipe)
    recorded = {
        name: row for name, row in recorded_rows(entry, hashes, records).items() if name in hashes
    }
    seeds = {
        row: {run["seed"] for run in recorded.get(row.name, {"runs": []})["runs"]}
        for row in entry.rows
    }
    lacking = tuple(row for row in entry.rows if not seeds[row].issuperset(entry.seed_list))
    return replace(
        entry, rows=lacking or entry.rows, recorded=frozenset(set.intersection(*seeds.values()))
    )


def recorded_rows(
    entry: Entry, hashes: Mapping[str, str], records: Path
) -> dict[str, dict[str, Any]]:
    """Return what the records of a corpus have of an entry's recipes, by name.

    Runs of the entry's own record come first; other records add seeds of the entry that it lacks.

    Args:
        entry: Of the queue.
        hashes: Of its recipes as they are now, by name. One without, since it cannot be composed
            here, keeps the runs that the own record has under its name.
        records: Folder of the records.
    """
    own = record_path(entry, records)
    rows: dict[str, dict[str, Any]] = {}
    found = [
        (path, old)
        for path in own.parent.glob("*.json")
        for old in read_json(path, "recipes")["recipes"]
    ]
    for path, old in sorted(found, key=lambda item: (item[0] != own, item[0])):
        for name in (row.name for row in entry.rows):
            same = (
                hashes[name] == old["hash"]
                if name in hashes
                else (path, old["name"]) == (own, name)
            )
            if not same:
                continue
            kept = rows.setdefault(name, {**old, "name": name, "runs": []})
            known = {run["seed"] for run in kept["runs"]}
            kept["runs"] += [
                run
                for run in old["runs"]
                if run["seed"] not in known and (path == own or run["seed"] in entry.seed_list)
            ]
    return rows


def runs_in(record: Mapping[str, Any]) -> set[tuple[str, int]]:
    """Return name and seed of the runs of a record."""
    return {(row["name"], run["seed"]) for row in record["recipes"] for run in row["runs"]}


def record_path(entry: Entry, records: Path) -> Path:
    """Return the file of an entry's record."""
    return records / entry.corpus / f"{entry.name}.json"


def remedy(content: Mapping[str, Any]) -> str:
    """Return what a record without a verdict needs."""
    runs = [(row["name"], run) for row in content["recipes"] for run in row["runs"]]
    without = [f"{name} seed {run['seed']}" for name, run in runs if SUMS not in run]
    if without:
        return (
            "these recorded runs have no sums per dialogue, so it needs new ones:"
            f" {', '.join(without)}"
        )
    return f"compare first: {content['command']}"


def content_of(
    table: Table, systems: Sequence[System], output: Path, now: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the record of a table: no weights and no responses, but metrics and learning curves of
    every run.

    Args:
        table: From `plan_table`.
        systems: Its contenders that have finished runs.
        output: Folder of all runs.
        now: The environment in which it is recorded.
    """
    entry = table.entry
    rows = {row.name: row for row in entry.rows}
    recipes = [
        {
            "name": system.name,
            "recipe": rows[system.name].recipe,
            "overrides": overrides_of(entry, rows[system.name], output),
            "hash": table.hashes[system.name],
            "parameters": system.evaluated.model.parameters.get("total"),
            "trials": system.evaluated.model.trials,
            "runs": [run_of(run) for run in system.runs],
        }
        for system in systems
    ]
    results = compared(trained_part(table))
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
        "missing": missing_from(recipes, table),
        "notes": table.notes,
        "recipes": recipes,
        "references": trivial_systems(systems, entry.columns),
        "verdict": displayed(results).verdict if results else "",
        "differences": recorded_differences(map(vars, results.differences if results else ())),
        "ratings": ratings_of(displayed(results)) if results else [],
    }


def recorded_differences(items: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return what a record keeps of differences: all on the whole test set, on subsets those that
    were tested.
    """
    return [
        {key: item.get(key) for key in DIFFERENCE}
        for item in items
        if item["subset"] == "all" or item.get("p") is not None
    ]


def ratings_of(results: Results) -> list[dict[str, Any]]:
    """Return the ratings of people by pair of contenders."""
    raters = sum(not rater.excluded for rater in results.ratings.raters)
    return [
        {
            "a": pair.a,
            "b": pair.b,
            "rater": f"{raters} rater{'s' * (raters != 1)}",
            "wins_a": pair.chosen_a,
            "wins_b": pair.chosen_b,
            "ties": pair.ratings - pair.chosen_a - pair.chosen_b,
            "p": pair.p,
        }
        for pair in results.ratings.pairs
    ]


def run_of(run: FinishedRun) -> dict[str, Any]:
    """Return one run: where it was trained, its cost, its metrics, its sums per dialogue, and its
    learning curve.
    """
    trained, *_ = machines = machines_of(run.folder)
    curve = run.entry.validations
    names = {
        "step": "step",
        "epoch": "epoch",
        "seconds": "seconds",
        "validation/bits_per_byte": "bits_per_byte",
    }
    return {
        "seed": run.entry.seed,
        "commits": commits_of(run.folder),
        "date": trained["time"][:10],
        "hardware": in_sequence(hardware(machine) for machine in machines),
        "threads": max(machine["threads"] for machine in machines),
        "precision": read_recipe(run.folder).trainer.precision,
        "torch": in_sequence(machine["torch"] for machine in machines),
        "data": trained["data"],
        "fingerprint": run.entry.metrics.get("fingerprint"),
        **{key: getattr(run.entry, key) for key in RUN},
        "metrics": {**with_set_bits(numbers(run.entry.metrics)), **analyses_of(run.evaluation)},
        **({} if run.measured is None else dialogue_sums(run.measured)),
        "curve": {key: [getattr(point, name) for point in curve] for key, name in names.items()},
    }


def trivial_systems(systems: Sequence[System], columns: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the reference rows of the test set, by subset and system: bits per byte and the
    columns.
    """
    metrics = next((run.entry.metrics for system in systems for run in system.measured_runs), {})
    kept = {PRIMARY, *columns}
    return {
        subset: {
            name: numbers({key: row[key] for key in row if key in kept})
            for name, row in rows.items()
        }
        for subset, rows in references_of(metrics).items()
    }


def with_set_bits(metrics: dict[str, Any]) -> dict[str, Any]:
    """Return metrics with ``parlai_sets.S1_bits_per_byte`` and those of the other sets.

    Perplexities per token of different tokenizers cannot be compared; log2(perplexity) tokens /
    bytes can.
    """
    sets = metrics.get("parlai_sets", {})
    bits = {
        f"{name}_bits_per_byte": math.log2(value) * sets[f"{name}_tokens"] / sets[f"{name}_bytes"]
        for name, value in sets.items()
        if f"{name}_tokens" in sets
    }
    return {**metrics, "parlai_sets": {**sets, **bits}} if bits else metrics


def analyses_of(evaluation: Path | None) -> dict[str, dict[str, Any]]:
    """Return what a comparison has measured of a run beside its metrics, where the evaluation
    folder has it.

    ``context_use`` has the bits per byte lost by each change of the context, such as
    ``context_use.random_context``; ``attention`` the statistics of the decoder's attention to the
    source, over all layers and heads (``mean``) and with equal weights (``uniform``).
    """
    found: dict[str, dict[str, Any]] = {}
    if evaluation is None:
        return found
    if measured := read_added(evaluation / CONTEXT_USE, "perturbations"):
        rows = measured["perturbations"]
        found["context_use"] = numbers(
            {row["perturbation"].replace(" ", "_"): row["bits_per_byte"] for row in rows}
        )
    if attention := read_added(evaluation / ATTENTION, "rows"):
        rows = {row.pop("module"): row for row in attention["rows"]}
        found["attention"] = numbers({name: rows[name] for name in (MEAN, UNIFORM) if name in rows})
    return found


def missing_from(rows: Sequence[Mapping[str, Any]], table: Table) -> list[str]:
    """Return the runs of a table that its rows lack, and with the reason the recipes that cannot be
    composed here.
    """
    entry = table.entry
    present = runs_in({"recipes": rows})
    absent = [
        (row.name, seed)
        for seed in entry.seed_list
        for row in entry.rows
        if (row.name, seed) not in present
    ]
    names = [
        f"{name} ({table.missing[name]})" if name in table.missing else f"{name} seed {n}"
        for name, n in absent
    ]
    return list(dict.fromkeys(names))


def with_recorded(
    content: dict[str, Any], earlier: Mapping[str, Any], table: Table, records: Path
) -> dict[str, Any]:
    """Return a record with the runs that it lacks and the corpus's records have, if recipe and data
    are the same.

    Args:
        content: Of the runs in the output folder.
        earlier: The record that it will replace.
        table: What it records.
        records: Folder of the records.
    """
    new = {row["name"]: row for row in content["recipes"]}
    recorded = recorded_rows(table.entry, table.hashes, records)
    old_runs = [run for row in recorded.values() for run in row["runs"]]
    data = {run["data"] for row in content["recipes"] for run in row["runs"]} or {
        run["data"] for run in old_runs[:1]
    }
    rows: list[dict[str, Any]] = []
    joined = False
    for name in (row.name for row in table.entry.rows):
        runs = new[name]["runs"] if name in new else []
        trained = {run["seed"] for run in runs}
        others = []
        for run in recorded.get(name, {"runs": []})["runs"]:
            if run["seed"] in trained:
                continue
            if run["data"] not in data:
                log.warning("%s seed %d: recorded on other data, left out", name, run["seed"])
                continue
            others.append(run)
        joined = joined or bool(others)
        if runs or others:
            row = new[name] if name in new else recorded[name]
            rows.append({**row, "runs": sorted([*others, *runs], key=itemgetter("seed"))})
    if not joined and (content["verdict"] or not content["missing"]):
        return content
    kept = (
        earlier
        if earlier.get("verdict") and rounded(rows) == earlier["recipes"]
        else pooled_verdict(rows)
    )
    return {
        **content,
        "recipes": rows,
        "missing": missing_from(rows, table),
        "references": (
            content["references"]
            if any(content["references"].values())
            else earlier.get("references", {})
        ),
        "verdict": kept["verdict"],
        "differences": recorded_differences(kept["differences"]),
        "ratings": earlier.get("ratings", []) if kept is earlier else content["ratings"],
    }


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
    """Return indented JSON with lists of numbers on one line."""
    text = to_json(content, indent=1) + "\n"
    return re.sub(
        r"\[[\s\d.,e+-]+\]",
        lambda match: re.sub(r"\s+", " ", match[0]).replace("[ ", "[").replace(" ]", "]"),
        text,
    )


def rounded(value: Any) -> Any:
    """Return nested values with numbers of six significant digits."""
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value
