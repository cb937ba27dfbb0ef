"""Comparison folder: its contenders and seeds in grid.json, and one run folder per contender and
seed.

    grid.json                     version, commands, seeds, overrides, primary metric, number of
                                  looks, metrics of files, contenders with hashes
    runs/<contender>/seed-<n>/    run folder, unless grid.json names another;
                                  of a single file of responses: runs/<contender>/
    tuning/<contender>/<values>/  run folder of a trial; that of the chosen values is the run of the
                                  first seed, and chosen.json beside it names them (`tuning.py`)
    test_set.jsonl                examples, if --references has given them
    results.json, report.*        written at the end, by one process
    looks.jsonl                   p-values of each report on new seeds, only appended

Beside the folder of a run: ``.seed-<n>.lock``, held while a process works on the run, and
``.seed-<n>.error``, the reason why the run failed.
"""

from __future__ import annotations

import copy
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from dialog.atomic import lock, write_json
from dialog.comparison.systems.answers import ANSWERS
from dialog.comparison.systems.specification import Specification
from dialog.config.components import Component
from dialog.config.compose import Composed, fill_schema
from dialog.config.schema import Recipe, to_dict
from dialog.config.trust import FULL_TRUST, NO_TRUST, Trust
from dialog.config.variations import recipe_variations
from dialog.config.yaml_layers import Layer, merge_layer, nest, parse_value
from dialog.errors import UserError
from dialog.escaping import to_json
from dialog.json_files import read_json
from dialog.paths import check_links, is_inner_path
from dialog.runs.folder import ENVIRONMENT, hash_of, read_recipe, read_summary
from dialog.version import __version__

T = TypeVar("T")

GRID = "grid.json"
LOCK = ".lock"
FORMAT = 1
KINDS = ("recipe", "runs", "responses")
LARGEST_SEED = 2**32 - 1
"""Limit of NumPy."""
SPLIT = "test"
"""The split on which contenders are compared."""
DIVERGED = "diverged.json"
"""File of a run folder whose training diverged: the message."""
IGNORED = (
    "about", "seed", "data.path", "preflight", "logger", "expect", "smoke",
    "checkpoint.every_n_steps",
    "trainer.accelerator", "trainer.devices", "trainer.num_nodes", "trainer.enable_progress_bar",
    "trainer.log_every_n_steps", "trainer.profiler",
)  # fmt: skip
"""Keys in which runs of one contender may differ: seed, place, machine, and what is recorded."""


@dataclass(frozen=True)
class Contender:
    """One side of a comparison.

    Attributes:
        name: Name in the report, and folder of its runs.
        kind: "recipe" (trained here), "runs" (trained run folders), or "responses" (files of
            another system).
        hash: Of the recipe without `IGNORED`, or of the files.
        recipe: The composed recipe as plain values; empty for responses.
        folders: Run folders by seed; for a recipe those outside of the comparison, which
            comparisons may share.
        files: Files of responses, one for each seed.
        hashes: SHA-256 of each of them; of a program, of its command.
        system: Command of a program that answers the contexts, in place of files.
        stated: What the system.yaml of a system states.
        tune: ``KEY=A,B``: values of a recipe, one combination of which is chosen by trials.
        trust: Which parts its recipe and its runs may import; not written to the folder.
        may_run: Whether the caller has given the command; not written to the folder.
    """

    name: str
    kind: str
    hash: str
    recipe: dict[str, Any] = field(default_factory=dict, hash=False)
    folders: dict[int, str] = field(default_factory=dict, hash=False)
    files: tuple[str, ...] = ()
    hashes: tuple[str, ...] = ()
    system: str = ""
    tune: tuple[str, ...] = ()
    stated: dict[str, Any] = field(default_factory=dict, compare=False)
    trust: Trust = field(default=NO_TRUST, compare=False)
    may_run: bool = field(default=False, compare=False)

    @cached_property
    def composed(self) -> Composed:
        """The recipe."""
        recipe = fill_schema(self.recipe, {}, f"{GRID}: {self.name}")
        return Composed(self.name, self.trust.allow(recipe), {})

    @property
    def program(self) -> Specification:
        """The program of a system."""
        return Specification(self.name, self.system)

    @cached_property
    def trials(self) -> dict[str, Contender]:
        """The contender with each combination of the values of ``tune``, by its label."""
        if not self.tune:
            return {}
        leaves = flat(self.recipe)
        varied = recipe_variations(self.tune, leaves, "--tune")
        number = (leaves.get("about.trials") or 0) + len(varied)
        trials = {}
        for label, overrides in varied:
            recipe = copy.deepcopy(self.recipe)
            settings = {"about.trials": number}
            for override in overrides:
                key, _, text = override.partition("=")
                settings[key] = parse_value(override, text)
            for key, value in settings.items():
                merge_layer(recipe, {}, Layer(nest(key, value), {key: "--tune"}))
            trials[label] = replace(self, recipe=recipe, tune=())
        if len(trials) < len(varied):
            raise UserError(f"--tune {' '.join(self.tune)}: two values have the same label")
        return trials

    @property
    def recipes(self) -> list[dict[str, Any]]:
        """Its recipe and those of its trials."""
        return [self.recipe, *(trial.recipe for trial in self.trials.values())]


@dataclass(frozen=True)
class Cell:
    """One run of a comparison: a contender and a seed; None for a single file of responses.

    Attributes:
        contender: The contender.
        seed: The seed.
        folder: Run folder.
        place: Path of the lock and of the error in the comparison folder, without their suffixes.
        outside: Whether the run folder lies outside of the comparison folder.
        named: Whether the caller has named a folder outside; if grid.json alone names it, it is
            only read.
        trial: The values of a trial, which is trained but not evaluated; empty for a run.
    """

    contender: Contender
    seed: int | None
    folder: Path
    place: Path
    named: bool = True
    outside: bool = False
    trial: str = ""

    @property
    def name(self) -> str:
        """Name for messages."""
        if self.trial:
            return f"{self.contender.name} trial {self.trial}"
        return (
            self.contender.name if self.seed is None else f"{self.contender.name} seed {self.seed}"
        )

    @property
    def file(self) -> Path:
        """File of responses of this run."""
        if self.contender.system:
            return self.folder / ANSWERS
        return Path(self.contender.files[(self.seed or 1) - 1])

    @property
    def file_hash(self) -> str:
        """SHA-256 of the file of responses."""
        return self.contender.hashes[(self.seed or 1) - 1]

    @property
    def error_file(self) -> Path:
        """File with the reason why the run failed."""
        return self.place.with_name(f"{self.place.name}.error")

    def check_may_run(self) -> None:
        """Check that the program of this system may be started.

        Raises:
            UserError: grid.json alone has its command.
        """
        if not self.contender.may_run:
            option = f"--system {shlex.quote(self.contender.program.option)}"
            raise UserError(
                f"{self.name}: the comparison folder has its command, which is not run from there;"
                f" give it again with {option}, or pass --trust"
            )

    def check_named(self) -> None:
        """Check that this run may be trained or evaluated.

        Raises:
            UserError: its folder lies outside of the comparison, and grid.json alone names it.
        """
        if not self.named:
            raise UserError(
                f"{self.folder}: lies outside of the comparison folder, so it is only read; name it"
                " on the command line too, or pass --trust"
            )

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the lock of this run and yield True, or yield False if another process holds it."""
        self.place.parent.mkdir(parents=True, exist_ok=True)
        with lock(self.place.with_name(f"{self.place.name}.lock")) as held:
            yield held


@dataclass(frozen=True)
class Grid:
    """Contenders and seeds of a comparison folder.

    Attributes:
        folder: The comparison folder.
        contenders: The contenders.
        seeds: Seeds of the recipes.
        overrides: ``key=value`` for recipes that are added.
        commands: Commands that have changed the grid.
        references: SHA-256 of test_set.jsonl; empty if the test set is that of a contender.
        primary: Metric that is tested first; empty until the first plan.
        looks: Number of reports on new seeds that may decide.
        metrics: Metrics of files of responses, beside the standard ones, if no recipe names any.
        named: Run folders outside of the comparison that the caller has named, and that it may thus
            write to; None for all. What grid.json alone names is only read.
        chosen: The values that trials have chosen, by contender; from `tuning.with_choices`.
    """

    folder: Path
    contenders: tuple[Contender, ...]
    seeds: tuple[int, ...]
    overrides: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    references: str = ""
    primary: str = ""
    looks: int = 1
    metrics: tuple[Component, ...] = ()
    named: frozenset[str] | None = field(default=frozenset(), compare=False)
    chosen: Mapping[str, str] = field(default_factory=dict, compare=False)

    def cells(self) -> list[Cell]:
        """Return all trials and runs: the first of every contender, then the second, ...

        A contender in a run's cell still has ``tune`` if no values are chosen yet.
        """
        rounds = zip_longest(*map(self._cells_of, self.contenders))
        cells = (cell for one_each in rounds for cell in one_each)
        return [cell for cell in cells if cell is not None]

    def _cells_of(self, contender: Contender) -> list[Cell]:
        runs = self.folder / "runs" / contender.name
        if contender.system or len(contender.files) == 1:
            return [Cell(contender, None, runs, runs.with_name(f".{runs.name}"))]
        if contender.kind == "responses":
            return [
                Cell(contender, seed, runs / f"seed-{seed}", runs / f".seed-{seed}")
                for seed in range(1, len(contender.files) + 1)
            ]
        seeds = self.seeds if contender.kind == "recipe" else tuple(contender.folders)
        trials = {cell.trial: cell for cell in self.trial_cells(contender)}
        chosen = trials.get(self.chosen.get(contender.name, ""))
        cells = [*trials.values()]
        for seed in seeds:
            if seed in contender.folders:
                cells.append(self._outside_cell(contender, seed, contender.folders[seed]))
            elif chosen and seed == chosen.seed:
                cells.append(replace(chosen, trial=""))
            else:
                tuned = chosen.contender if chosen else contender
                cells.append(Cell(tuned, seed, runs / f"seed-{seed}", runs / f".seed-{seed}"))
        return cells

    def trial_cells(self, contender: Contender) -> list[Cell]:
        """Return the trials of a contender, which have the first seed."""
        tuning = self.folder / "tuning" / contender.name
        return [
            Cell(trial, self.seeds[0], tuning / label, tuning / f".{label}", trial=label)
            for label, trial in contender.trials.items()
        ]

    def _outside_cell(self, contender: Contender, seed: int, path: str) -> Cell:
        """Return the cell of a run folder outside of the comparison."""
        folder = Path(path)
        named = self.named is None or path in self.named
        # comparisons that train the same run share its lock
        if contender.kind == "recipe" and named:
            return Cell(contender, seed, folder, folder.with_name(f".{folder.name}"), outside=True)
        place = self.folder / "runs" / f".{contender.name.replace('/', '-')}-{seed}"
        return Cell(contender, seed, folder, place, named=named, outside=True)


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


def read_grid(folder: Path, *, trust: Trust = NO_TRUST) -> Grid:
    """Read the grid of a comparison folder, which somebody else may have written.

    Raises:
        UserError: no comparison, one of another format, a damaged file, or a path that leads out of
            the folder.
    """
    if not is_comparison(folder):
        raise UserError(
            f"{folder} is not a comparison folder: it has no {GRID}; choose another --output"
        )
    values = read_json(folder / GRID, "format", "version")
    if values["format"] != FORMAT:
        raise UserError(
            f"{folder / GRID}: has format {values['format']}, written by dialog"
            f" {values['version']}; this is dialog {__version__}, which reads format {FORMAT};"
            " choose another --output"
        )
    values = read_json(folder / GRID, "contenders", "seeds", "overrides", "commands")
    try:
        contenders = tuple(
            _contender(_typed(entry, dict), trust) for entry in _typed(values["contenders"], list)
        )
        seeds = tuple(_seed(seed) for seed in _typed(values["seeds"], list))
        overrides = tuple(_typed(text, str) for text in _typed(values["overrides"], list))
        commands = tuple(_typed(text, str) for text in _typed(values["commands"], list))
        references = _typed(values.get("references", ""), str)
        primary = _typed(values.get("primary", ""), str)
        looks = _typed(values.get("looks", 1), int)
        if looks < 1:
            raise ValueError(f"{looks} looks")
        metrics = tuple(_typed(entry, dict) for entry in _typed(values.get("metrics", []), list))
        if not all(isinstance(metric.get("name"), str) for metric in metrics):
            raise ValueError("a metric has no name")
    except (KeyError, TypeError, ValueError, UserError) as error:
        raise UserError(f"{folder / GRID}: damaged ({error}); restore it from a copy") from error
    if trust != FULL_TRUST:
        check_links(folder)
    decisions = (primary, looks, trust.allow(metrics))
    return Grid(folder, contenders, seeds, overrides, commands, references, *decisions)


def _contender(entry: Mapping[str, Any], trust: Trust) -> Contender:
    name = _typed(entry["name"], str)
    kind = _typed(entry["kind"], str)
    if kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r} of a contender")
    if kind != "runs" and not is_inner_path(name):
        raise ValueError(f"the name {name!r} leads out of the folder")
    recipe = _typed(entry["recipe"], dict)
    folders = {
        _seed(int(seed)): _typed(path, str) for seed, path in _typed(entry["folders"], dict).items()
    }
    if not all(Path(path).is_absolute() and "\0" not in path for path in folders.values()):
        raise ValueError(f"a run folder of {name!r} is no absolute path")
    digest = _typed(entry["hash"], str)
    files = _texts(entry, "files")
    hashes = _texts(entry, "hashes")
    if entry.get("file"):  # of an earlier version, which knew no seeds of a system
        files = (_typed(entry["file"], str),)
        hashes = (digest,)
    system = _typed(entry.get("system", ""), str)
    if kind == "responses" and not len(hashes) == max(len(files), bool(system)) > 0:
        raise ValueError(f"{name!r} has {len(files)} files and {len(hashes)} hashes")
    tune = _texts(entry, "tune")
    contender = Contender(
        name, kind, digest, recipe, folders, files, hashes, system=system, tune=tune,
        stated=_typed(entry.get("stated", {}), dict),
    )  # fmt: skip
    may_run = trust == FULL_TRUST
    return replace(contender, trust=trust.within(contender.recipes), may_run=may_run)


def _texts(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    return tuple(_typed(text, str) for text in _typed(entry.get(key, []), list))


def _typed(value: object, kind: type[T]) -> T:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{to_json(value)[:60]} in place of a {kind.__name__}")
    return value


def _seed(value: object) -> int:
    seed = _typed(value, int)
    if not 0 <= seed <= LARGEST_SEED:
        raise ValueError(f"seed {str(seed)[:20]} is not between 0 and {LARGEST_SEED}")
    return seed


def write_grid(grid: Grid) -> None:
    """Write grid.json, without what the caller alone gives, trust and named folders, and without
    choices, which have files of their own.
    """
    values = {"format": FORMAT, "version": __version__, **asdict(grid)}
    del values["folder"], values["named"], values["chosen"]
    for contender in values["contenders"]:
        del contender["trust"], contender["may_run"]
    write_json(grid.folder / GRID, values)


# ------------------------------------------------------------------ identity of a recipe


def contender_hash(recipe: Recipe) -> str:
    """Return the SHA-256 of a recipe without `IGNORED`: equal for runs of one contender."""
    return hash_of(
        {key: value for key, value in flat(to_dict(recipe)).items() if not is_ignored(key)}
    )


def check_same_conditions(folders: Sequence[Path]) -> None:
    """Check that runs of one recipe have in common what its hash leaves out: data and number of
    devices.

    Raises:
        UserError: two were trained on different data, with different tokenizers or on different
            numbers of devices.
    """
    seen: dict[str, tuple[object, Path]] = {}
    for folder in folders:
        trainer = read_recipe(folder).trainer
        environment = read_json(folder / ENVIRONMENT, "data", "tokenizer")
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
                    f"{folder}: {name} differs from {first}, so they are not seeds of one model;"
                    " compare them apart"
                )


def difference_of(one: Contender, other: Contender) -> str:
    """Return the first setting in which two contenders of the same name differ."""
    if (one.kind, other.kind) != ("recipe", "recipe"):
        return f"{one.kind}, not {other.kind}" if one.kind != other.kind else "other content"
    before = flat(one.recipe)
    now = flat(other.recipe)
    key = next(
        key for key in {**before, **now} if before.get(key) != now.get(key) and not is_ignored(key)
    )
    return f"{key} is {before.get(key)} there and {now.get(key)} here"


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
