"""Comparison folder: its contenders and seeds in grid.json, and one run folder per contender and seed.

    grid.json                     format, version, commands, seeds, overrides, contenders with recipe and hash
    runs/<contender>/seed-<n>/    run folder, unless grid.json names another; of a file of responses: runs/<contender>/
    results.json, report.*        written at the end, by one process

Beside the folder of a run: ``.seed-<n>.lock``, held while a process works on the run, and ``.seed-<n>.error``, the
reason why the run failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from dialog.atomic import lock, write_json
from dialog.config.compose import Composed, fill_schema
from dialog.config.schema import Recipe, to_dict
from dialog.errors import UserError
from dialog.json_files import read_json
from dialog.runs.folder import ENVIRONMENT, hash_of, read_recipe, read_summary
from dialog.version import __version__

GRID = "grid.json"
LOCK = ".lock"
FORMAT = 1
SPLIT = "test"
"""The split on which contenders are compared."""
DIVERGED = "diverged.json"
"""File of a run folder whose training diverged: the message."""
IGNORED = (
    "about", "seed", "data.path", "preflight", "logger", "expect", "smoke", "checkpoint.every_n_steps",
    "trainer.accelerator", "trainer.devices", "trainer.num_nodes", "trainer.enable_progress_bar",
    "trainer.log_every_n_steps", "trainer.profiler",
)  # fmt: skip
"""Keys in which runs of one contender may differ: seed, place, machine, and what is recorded."""


@dataclass(frozen=True)
class Contender:
    """One side of a comparison.

    Attributes:
        name: Name in the report, and folder of its runs.
        kind: "recipe" (trained here), "runs" (trained run folders), or "responses" (a file of another system).
        hash: Of the recipe without `IGNORED`, or of the file.
        recipe: The composed recipe as plain values; empty for responses.
        folders: Run folders by seed; for a recipe those outside of the comparison, which comparisons may share.
        file: The file of responses.
    """

    name: str
    kind: str
    hash: str
    recipe: dict[str, Any] = field(default_factory=dict, hash=False)
    folders: dict[int, str] = field(default_factory=dict, hash=False)
    file: str = ""

    @cached_property
    def composed(self) -> Composed:
        """The recipe."""
        return Composed(self.name, fill_schema(self.recipe, {}, f"{GRID}: {self.name}"), {})


@dataclass(frozen=True)
class Cell:
    """One run of a comparison: a contender and a seed; None for a file of responses."""

    contender: Contender
    seed: int | None
    folder: Path
    place: Path
    """Path of the lock and of the error, without their suffixes."""

    @property
    def name(self) -> str:
        """Name for messages."""
        return self.contender.name if self.seed is None else f"{self.contender.name} seed {self.seed}"

    @property
    def error_file(self) -> Path:
        """File with the reason why the run failed."""
        return self.place.with_name(f"{self.place.name}.error")

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the lock of this run and yield True, or yield False if another process holds it."""
        self.place.parent.mkdir(parents=True, exist_ok=True)
        with lock(self.place.with_name(f"{self.place.name}.lock")) as held:
            yield held


@dataclass(frozen=True)
class Grid:
    """Contenders and seeds of a comparison folder."""

    folder: Path
    contenders: tuple[Contender, ...]
    seeds: tuple[int, ...]
    overrides: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()

    def cells(self) -> list[Cell]:
        """Return all runs: the first seed of every contender, then the second, ..."""
        rounds = [self._cells_of(contender) for contender in self.contenders]
        longest = max(map(len, rounds), default=0)
        return [cells[index] for index in range(longest) for cells in rounds if index < len(cells)]

    def _cells_of(self, contender: Contender) -> list[Cell]:
        runs = self.folder / "runs" / contender.name
        if contender.kind == "recipe":
            folders = [Path(contender.folders.get(seed, runs / f"seed-{seed}")) for seed in self.seeds]
            return [
                Cell(contender, seed, folder, folder.with_name(f".{folder.name}"))
                for seed, folder in zip(self.seeds, folders, strict=True)
            ]
        if contender.kind == "responses":
            return [Cell(contender, None, runs, runs.with_name(f".{runs.name}"))]
        places = self.folder / "runs" / f".{contender.name.replace('/', '-')}"
        return [
            Cell(contender, seed, Path(path), places.with_name(f"{places.name}-{seed}"))
            for seed, path in contender.folders.items()
        ]


def is_trained(folder: Path) -> bool:
    """Return whether the training of a run has ended."""
    return read_summary(folder) is not None or is_diverged(folder)


def is_diverged(folder: Path) -> bool:
    """Return whether the training of a run has diverged."""
    return (folder / DIVERGED).is_file()


# ------------------------------------------------------------------ grid.json


def is_comparison(folder: Path) -> bool:
    """Return whether a folder is a comparison."""
    return (folder / GRID).is_file()


def read_grid(folder: Path) -> Grid:
    """Read the grid of a comparison folder.

    Raises:
        UserError: no comparison, one of another format, or a damaged file.
    """
    if not is_comparison(folder):
        raise UserError(f"{folder} is not a comparison folder: it has no {GRID}; choose another --output")
    values = read_json(folder / GRID, "format", "version")
    if values["format"] != FORMAT:
        raise UserError(
            f"{folder / GRID}: has format {values['format']}, written by dialog {values['version']}; this is dialog "
            f"{__version__}, which reads format {FORMAT}; choose another --output"
        )
    values = read_json(folder / GRID, "contenders", "seeds", "overrides", "commands")
    try:
        contenders = tuple(_contender(entry) for entry in values["contenders"])
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{folder / GRID}: damaged ({error}); restore it from a copy") from error
    return Grid(folder, contenders, tuple(values["seeds"]), tuple(values["overrides"]), tuple(values["commands"]))


def _contender(entry: dict[str, Any]) -> Contender:
    return Contender(**{**entry, "folders": {int(seed): path for seed, path in entry["folders"].items()}})


def write_grid(grid: Grid) -> None:
    """Write grid.json."""
    values = {"format": FORMAT, "version": __version__, **asdict(grid)}
    del values["folder"]
    write_json(grid.folder / GRID, values)


# ------------------------------------------------------------------ identity of a recipe


def contender_hash(recipe: Recipe) -> str:
    """Return the SHA-256 of a recipe without `IGNORED`: equal for runs of one contender."""
    return hash_of({key: value for key, value in flat(to_dict(recipe)).items() if not is_ignored(key)})


def check_same_conditions(folders: Sequence[Path]) -> None:
    """Check that runs of one recipe have in common what its hash leaves out: data and number of devices.

    Raises:
        UserError: two were trained on different data, with different tokenizers or on different numbers of devices.
    """
    seen: dict[str, tuple[object, Path]] = {}
    for folder in folders:
        trainer, environment = read_recipe(folder).trainer, read_json(folder / ENVIRONMENT, "data", "tokenizer")
        conditions = {
            "data": environment["data"],
            "tokenizer": environment["tokenizer"],
            "trainer.devices": trainer.devices,
            "trainer.num_nodes": trainer.num_nodes,
        }
        for name, value in conditions.items():
            other, first = seen.setdefault(name, (value, folder))
            if value != other:
                raise UserError(
                    f"{folder}: {name} differs from {first}, so they are not seeds of one model; compare them apart"
                )


def is_ignored(key: str) -> bool:
    """Return whether runs of one contender may differ in a key."""
    return any(key == ignored or key.startswith(f"{ignored}.") for ignored in IGNORED)


def flat(values: object, prefix: str = "") -> dict[str, Any]:
    """Return nested values by dotted key."""
    if not isinstance(values, dict) or not values:
        return {prefix: values}
    return {
        key: leaf
        for name, value in values.items()
        for key, leaf in flat(value, f"{prefix}.{name}" if prefix else str(name)).items()
    }
