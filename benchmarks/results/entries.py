"""The entries of queue.yaml: tables of runs, and sweeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dialog.config.components import hint
from dialog.config.compose import Composed, compose
from dialog.config.yaml_layers import read_yaml
from dialog.errors import UserError
from dialog.json_files import read_json
from dialog.tuning.results import RESULTS, best_file

STAGES = ("a", "b", "c", "d", "e", "f")
TABLE_KEYS = ("stage", "purpose", "recipes", "seeds", "overrides", "tuned_by", "columns")
SWEEP_KEYS = ("stage", "purpose", "sweep", "trials", "space", "overrides", "hours")
ROW_KEYS = ("recipe", "overrides", "hours")


@dataclass(frozen=True)
class Row:
    """One contender of a table: a recipe, its overrides besides those of the table, and core hours
    for each run.
    """

    name: str
    recipe: str
    overrides: tuple[str, ...]
    hours: float


@dataclass(frozen=True)
class Entry:
    """An entry of the queue.

    Attributes:
        stage: One of `STAGES`, which are processed in this order.
        name: Name of the entry, of its folder, and of the recorded results.
        purpose: One line: the question that it answers.
        rows: Contenders of a table; empty for a sweep.
        seeds: Number of seeds of a table.
        recorded: Seeds that are left out, because a record has the runs of all recipes.
        overrides: For every recipe of the entry.
        tuned_by: Name of the sweep whose best recipes are trained in place of the recipes
            themselves.
        swept: Overrides of that sweep.
        columns: Metrics of the table in the README.
        sweep: Recipes of a sweep; empty for a table.
        trials: Of each recipe of the sweep, or of the sweep in `tuned_by`.
        space: Search space of a sweep; empty for its default.
        hours: Core hours in all.
    """

    stage: str
    name: str
    purpose: str
    rows: tuple[Row, ...] = ()
    seeds: int = 1
    recorded: frozenset[int] = frozenset()
    overrides: tuple[str, ...] = ()
    tuned_by: str = ""
    swept: tuple[str, ...] = ()
    columns: tuple[str, ...] = ("bits_per_byte",)
    sweep: tuple[str, ...] = ()
    trials: int = 0
    space: str = ""
    hours: float = field(default=0.0)

    @property
    def seed_list(self) -> list[int]:
        """The seeds of a table: from 1 on, without recorded ones."""
        return [seed for seed in range(1, self.seeds + 1) if seed not in self.recorded]

    @property
    def corpus(self) -> str:
        """The folder of recipes whose results it records: that of its first recipe."""
        return [*(row.recipe for row in self.rows), *self.sweep][0].partition("/")[0]


def read_queue(path: Path) -> list[Entry]:
    """Read the entries in the order in which they are processed: by stage, and those of a stage as
    in the file.

    Raises:
        UserError: with file and line.
    """
    layer = read_yaml(path)
    entries = [
        read_entry(name, values, layer.origin, path) for name, values in layer.values.items()
    ]
    sweeps = {entry.name: entry for entry in entries if entry.sweep}
    for number, entry in enumerate(entries):
        if not entry.tuned_by:
            continue
        if entry.tuned_by not in sweeps:
            place = layer.origin[f"{entry.name}.tuned_by"]
            raise UserError(
                f"{place}: unknown sweep {entry.tuned_by!r}{hint(entry.tuned_by, sweeps)}"
            )
        sweep = sweeps[entry.tuned_by]
        entries[number] = replace(entry, trials=sweep.trials, swept=sweep.overrides)
    return sorted(entries, key=lambda entry: entry.stage)


def read_entry(name: str, values: object, origin: Mapping[str, str], path: Path) -> Entry:
    """Read one entry."""
    place = origin.get(name, str(path))
    if not isinstance(values, dict):
        raise UserError(
            f"{place}: {name}: must be a mapping with stage, purpose, and recipes or sweep"
        )
    keys = SWEEP_KEYS if "sweep" in values else TABLE_KEYS
    for key in values:
        if key not in keys:
            raise UserError(
                f"{origin.get(f'{name}.{key}', place)}: {name}.{key}: unknown key{hint(key, keys)}"
            )
    for key in ("stage", "purpose", "trials" if "sweep" in values else "recipes"):
        if key not in values:
            raise UserError(f"{place}: {name}: has no {key}")
    if values["stage"] not in STAGES:
        raise UserError(
            f"{place}: {name}.stage: must be one of {', '.join(STAGES)}, not {values['stage']!r}"
        )
    common = (str(values["stage"]), name, str(values["purpose"]))
    overrides = texts(values, "overrides", f"{place}: {name}")
    if "sweep" in values:
        return Entry(
            *common,
            overrides=overrides,
            sweep=texts(values, "sweep", f"{place}: {name}"),
            trials=int(values["trials"]),
            space=values.get("space", ""),
            hours=float(values.get("hours", 0)),
        )
    if not isinstance(values["recipes"], dict) or not values["recipes"]:
        raise UserError(f"{place}: {name}.recipes: must map recipes to their core hours")
    rows = tuple(
        read_row(label, row, f"{place}: {name}.recipes") for label, row in values["recipes"].items()
    )
    seeds = int(values.get("seeds", 1))
    return Entry(
        *common,
        rows=rows,
        seeds=seeds,
        overrides=overrides,
        tuned_by=values.get("tuned_by", ""),
        columns=texts(values, "columns", f"{place}: {name}") or ("bits_per_byte",),
        hours=seeds * sum(row.hours for row in rows),
    )


def read_row(label: str, values: object, place: str) -> Row:
    """Read one contender: its core hours, or a mapping."""
    if isinstance(values, int | float):
        return Row(label, label, (), float(values))
    if not isinstance(values, dict) or not values.keys() <= set(ROW_KEYS) or "hours" not in values:
        raise UserError(
            f"{place}: {label}: must be core hours, or a mapping of {', '.join(ROW_KEYS)}"
        )
    overrides = texts(values, "overrides", f"{place}: {label}")
    return Row(label, values.get("recipe", label), overrides, float(values["hours"]))


def texts(values: Mapping[str, object], key: str, place: str) -> tuple[str, ...]:
    """Return a list of a mapping as texts; none without the key.

    Raises:
        UserError: it is no list.
    """
    listed = values.get(key)
    if not isinstance(listed, list | None):
        raise UserError(f"{place}.{key}: must be a list, not {listed!r}")
    return tuple(str(value) for value in listed or ())


def compose_row(entry: Entry, row: Row, output: Path) -> Composed:
    """Compose a contender; with ``tuned_by``, the best recipe of the sweep.

    Raises:
        UserError: an invalid recipe or override, or a sweep that has not finished.
    """
    name = row.recipe
    if entry.tuned_by:
        folder = sweep_folder(output, entry.tuned_by)
        if not is_swept(folder, entry.trials):
            raise UserError(f"waits for the sweep {entry.tuned_by}")
        name = str(folder / best_file(row.recipe))
    composed = compose(name, [*entry.overrides, *row.overrides])
    return Composed(row.name, composed.recipe, composed.origin)


def overrides_of(entry: Entry, row: Row, output: Path) -> list[str]:
    """Return the overrides of a row's recipe that give its contender, with those of its sweep and
    of the best trial.

    Of overrides of the same key, the last one.
    """
    swept: list[str] = []
    if entry.tuned_by:
        results = read_json(sweep_folder(output, entry.tuned_by) / RESULTS, "recipes")
        (best,) = (recipe["best"] for recipe in results["recipes"] if recipe["name"] == row.recipe)
        swept = [*entry.swept, *best["overrides"]]
    every = [*swept, *entry.overrides, *row.overrides]
    last = {override.partition("=")[0]: place for place, override in enumerate(every)}
    return [every[place] for place in sorted(last.values())]


def is_swept(folder: Path, trials: int) -> bool:
    """Return whether a sweep has all trials of every recipe."""
    if not (folder / RESULTS).is_file():
        return False
    return all(
        recipe["spent"]["trials"] >= trials
        for recipe in read_json(folder / RESULTS, "recipes")["recipes"]
    )


def sweep_folder(output: Path, name: str) -> Path:
    """Return the folder of a sweep."""
    return output / "sweeps" / name
