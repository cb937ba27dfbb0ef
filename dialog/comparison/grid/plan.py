"""Check a command line of ``compare`` before anything is written, and open its comparison
folder.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dialog.atomic import lock, write_text
from dialog.build import build_model
from dialog.comparison.decisions.primary import LIKELIHOOD, check_measured, declared
from dialog.comparison.grid.contenders import check_trusted, read_contenders, split_folder
from dialog.comparison.grid.folder import (
    GRID,
    LOCK,
    SPLIT,
    Contender,
    Grid,
    check_same_conditions,
    difference_of,
    is_comparison,
    is_trained,
    read_grid,
    write_grid,
)
from dialog.comparison.grid.metrics import check_metrics, metrics_of_files
from dialog.comparison.grid.responses import first_recipe, match_responses, read_test_set
from dialog.comparison.grid.test_set import (
    TEST_SET,
    Row,
    examples_of,
    read_references,
    system_input,
)
from dialog.comparison.grid.tuning import other_tune, tune_of
from dialog.config.components import Component
from dialog.config.trust import FULL_TRUST, NO_TRUST, Trust
from dialog.data.reading.files import sha256
from dialog.errors import UserError, section
from dialog.escaping import to_json
from dialog.paths import fresh_folder
from dialog.report.formats.results import ModelResults, RunResults
from dialog.runs.check import check_recipe
from dialog.runs.prepare import prepare_data

if TYPE_CHECKING:
    from dialog.comparison.parity import EvaluatedSystem

log = logging.getLogger("dialog")


@dataclass(frozen=True)
class Request:
    """The command line of ``compare``.

    Attributes:
        names: Recipes, run folders, files of responses, and at most one comparison folder.
        overrides: ``key=value`` for the recipes.
        variations: ``KEY=A,B`` for the recipes.
        seeds: Number of seeds; None keeps those of the folder, or is 1.
        output: Folder of the comparison; None for a new one.
        jobs: Number of processes.
        trust: Which parts recipes of folders may import.
        strict: Reject contenders that differ in the parity contract.
        job: One of the processes of a comparison: it trains and evaluates only.
        named: Run folders outside of the comparison that a job may write to.
        tune: ``KEY=A,B`` from which trials choose for each recipe.
        references: Files of the test set, for systems without a recipe.
        systems: ``NAME: COMMAND`` of programs that answer the contexts.
        timeout: Seconds for a response of a program.
        primary: Metric that is tested first; None keeps that of the folder, or is the default.
        looks: Number of reports on new seeds that may decide; None keeps that of the folder, or
            is 1.
        metrics: Metrics of files of responses, as components or names.
    """

    names: Sequence[str]
    overrides: Sequence[str] = ()
    variations: Sequence[str] = ()
    seeds: int | None = None
    output: Path | None = None
    jobs: int = 1
    trust: Trust = NO_TRUST
    strict: bool = False
    job: bool = False
    named: Sequence[str] = ()
    tune: Sequence[str] = ()
    references: Sequence[Path] = ()
    systems: Sequence[str] = ()
    timeout: float = 300.0
    primary: str | None = None
    looks: int | None = None
    metrics: Sequence[str] = ()

    @property
    def command(self) -> str:
        """The command that repeats the comparison."""
        settings = [part for variation in self.variations for part in ("--vary", variation)]
        settings += [part for values in self.tune for part in ("--tune", values)]
        settings += [part for system in self.systems for part in ("--system", system)]
        settings += [part for metric in self.metrics for part in ("--metrics", metric)]
        if self.references:
            settings += ["--references", ",".join(map(str, self.references))]
        count = [] if self.seeds is None else ["--seeds", str(self.seeds)]
        count += [] if self.primary is None else ["--primary", self.primary]
        count += [] if self.looks is None else ["--looks", str(self.looks)]
        return shlex.join(
            ["python", "-m", "dialog", "compare", *self.names, *self.overrides, *settings, *count]
        )


def prepare_grid(request: Request) -> Grid:
    """Check the contenders and open the comparison folder.

    Raises:
        UserError: contenders that cannot be compared, before anything is written.
    """
    folder, names = split_folder(request.names)
    if folder is not None and request.output not in (None, folder):
        raise UserError(
            f"{folder} is a comparison folder already; remove --output {request.output}"
        )
    folder = folder or request.output
    if folder is not None:
        check_output(folder)
    current = Grid(folder or Path(), (), ())
    if folder is not None and is_comparison(folder):
        current = read_grid(folder, trust=request.trust)
    all_folders = request.trust == FULL_TRUST and not request.job
    current = replace(current, named=None if all_folders else frozenset(request.named))
    if current.contenders and not names and (request.overrides or request.variations):
        settings = [*request.overrides, *request.variations]
        raise UserError(
            f"{settings[0]}: applies to new recipes only; name one, or start another comparison"
        )
    tune = tune_of(current, request.tune)
    inherited = [text for text in current.overrides if text not in request.overrides]
    new = read_contenders(
        names,
        request.overrides,
        request.variations,
        tune=tune,
        inherited=inherited,
        systems=request.systems,
        trust=request.trust,
    )
    overrides = [*inherited, *request.overrides]
    planned = merged(current, new, seeds_of(current, new, request.seeds), overrides)
    given = given_references(planned, request.references)
    planned = replace(planned, metrics=metrics_of_files(planned, current, request.metrics))
    check_trusted(planned)
    if len(planned.contenders) < 2:
        raise UserError(
            "compare needs at least two contenders: recipes, run folders of different recipes, or"
            " files of responses"
        )
    planned = with_decisions(planned, current, request)
    if all(contender.kind != "recipe" for contender in planned.contenders):
        if request.seeds is not None:
            raise UserError(
                f"--seeds {request.seeds}: applies to recipes; add trained runs of more seeds"
                " instead"
            )
        if request.tune:
            raise UserError(f"--tune {request.tune[0]}: applies to recipes, not to trained runs")
    missing = any(
        cell.contender.kind == "recipe" and not is_trained(cell.folder) for cell in planned.cells()
    )
    if missing or planned != current:
        checked = planned.contenders if planned == current else with_trials(planned.contenders)
        try:
            check_single_process(checked)
        except UserError as error:
            if not inherited or not new:
                raise
            raise UserError(
                f"{error}; new recipes have the settings of the comparison too"
                f" ({' '.join(inherited)}): if they do not fit, train the recipe first and add its"
                " run folder"
            ) from error
        data = {
            contender.name: prepare_data(contender.composed.recipe, quiet=request.job)
            for contender in checked
            if contender.kind != "responses"
        }
        check_test_sets(replace(planned, contenders=tuple(checked)), data, given)
        if planned.metrics:
            check_metrics(planned.metrics)
        if request.strict:
            check_strict(planned, data)
    folder = folder or fresh_folder("comparisons")
    opened = open_grid(
        *(folder, new, planned.seeds, overrides, request.command),
        primary=planned.primary,
        looks=planned.looks,
        metrics=planned.metrics,
        trust=request.trust,
        given=given,
    )
    return replace(opened, named=planned.named)


def given_references(planned: Grid, paths: Sequence[Path]) -> list[Row]:
    """Return the examples that ``--references`` gives; none without it.

    Raises:
        UserError: they cannot be read, a recipe has a test set already, or the folder has another.
    """
    if not paths:
        return []
    if first := first_recipe(planned.contenders):
        raise UserError(f"--references: {first.name} has a test set already; leave it out")
    given = read_references(paths)
    if planned.references and difference_of_tests(read_test_set(planned, SPLIT), given):
        raise UserError(
            f"--references {paths[0]}: {planned.folder} has another test set; leave it out, or"
            " choose another --output"
        )
    if planned.contenders and not planned.references and is_comparison(planned.folder):
        raise UserError(
            f"--references: {planned.folder} has the test set of its first file; leave it out, or"
            " choose another --output"
        )
    return given


def with_decisions(planned: Grid, current: Grid, request: Request) -> Grid:
    """Return the grid with its primary metric and its number of looks.

    Raises:
        UserError: those of `declared`, or a file of responses lacks what the metric needs.
    """
    files = [Path(file) for contender in planned.contenders for file in contender.files]
    primary, looks = declared(
        *(current.folder, current.primary, current.looks, files, request.primary, request.looks),
        commands=" && ".join(current.commands),
    )
    decided = replace(planned, primary=primary, looks=looks)
    if decided != current:  # the files of a finished comparison may be gone
        check_measured(primary, files)
    return decided


def with_trials(contenders: Sequence[Contender]) -> list[Contender]:
    """Return contenders and their trials, each with a name of its own."""
    return [
        one
        for contender in contenders
        for one in (
            contender,
            *(
                replace(trial, name=f"{trial.name} trial {label}")
                for label, trial in contender.trials.items()
            ),
        )
    ]


def seeds_of(current: Grid, new: Sequence[Contender], number: int | None) -> list[int]:
    """Return the seeds: as many as requested, from the first seed of the folder or of the first
    recipe on.
    """
    if current.seeds and number is None:
        return list(current.seeds)
    recipes = [contender.composed.recipe for contender in new if contender.kind != "responses"]
    first = current.seeds[0] if current.seeds else recipes[0].seed if recipes else 1
    seeds = list(range(first, first + (number or 1)))
    if extra := [seed for seed in current.seeds if seed not in seeds]:
        log.info(
            "%s: has seeds %s as well; seeds are only added",
            current.folder,
            ", ".join(map(str, extra)),
        )
    return seeds


def check_single_process(contenders: Sequence[Contender]) -> None:
    """Raise UserError if a launcher started several processes, or if a recipe trains in several."""
    from dialog.training.distributed.cluster import external_launcher

    launched = external_launcher()
    if launched is not None and launched[1] > 1:
        launcher, processes = launched
        raise UserError(
            f"compare runs in one process, but {launcher} started {processes}; "
            f"train with {launcher}, then compare the run folders in one process"
        )
    for contender in contenders:
        if contender.kind != "recipe":
            continue
        with section(contender.name):
            processes = check_recipe(contender.composed.recipe)
        if processes > 1:
            raise UserError(
                f"{contender.name}: compare trains in one process, but this recipe uses"
                f" {processes}; train it first, then compare the run folders"
            )


def check_test_sets(grid: Grid, data: Mapping[str, Path], given: Sequence[Row] = ()) -> None:
    """Check that all contenders have the same test set; training data and tokenizers may differ.

    Args:
        grid: Recipes, run folders and files of responses.
        data: Folders of prepared data by contender; contenders of one folder have one test set.
        given: Examples of ``--references``.

    Raises:
        UserError: a recipe with other test examples, or a file that does not answer all of them.
    """
    recipes = {
        contender.name: contender.composed.recipe
        for contender in grid.contenders
        if contender.name in data
    }
    names: dict[Path, str] = {}  # the first contender of each folder
    for name, folder in data.items():
        names.setdefault(folder, name)
    first, *others = names.values() if names else ("",)
    systems = [contender for contender in grid.contenders if contender.kind == "responses"]
    if not others and not systems:
        return
    expected = read_test_set(grid, SPLIT, given)
    for name in others:
        if difference := difference_of_tests(expected, list(examples_of(recipes[name], SPLIT))):
            raise UserError(
                f"{first} and {name} have different test sets ({difference}); give them the same"
                " corpus, data.filters and data.context_turns"
            )
    for contender in systems:
        for file in contender.files:
            match_responses(Path(file), expected)


def difference_of_tests(expected: Sequence[Row], others: Sequence[Row]) -> str:
    """Return how two test sets differ, for a message; empty if they are equal."""
    if len(expected) != len(others):
        return f"{len(expected):,} and {len(others):,} examples"
    return next(
        (
            f"example {one['id']} differs"
            for one, other in zip(expected, others, strict=True)
            if one != other
        ),
        "",
    )


def check_strict(grid: Grid, data: Mapping[str, Path]) -> None:
    """Raise UserError if contenders differ in a setting that must be equal and that their recipes
    determine.

    Args:
        grid: Contenders and seeds.
        data: Folders of prepared data, by contender; of files of responses there are none.
    """
    from dialog.comparison.parity import parity, raise_broken

    trained = [contender for contender in grid.contenders if contender.name in data]
    runs = [cell for cell in grid.cells() if not cell.trial]
    systems = [
        planned_system(
            # chosen values are unknown, the number of trials is not
            next(iter(contender.trials.values()), contender),
            [cell.seed for cell in runs if cell.contender.name == contender.name],
            data[contender.name],
        )
        for contender in trained
    ]
    if systems:
        raise_broken(parity(systems))


def planned_system(
    contender: Contender, seeds: Sequence[int | None], data: Path
) -> EvaluatedSystem:
    """Return a contender as it will be: recipe, seeds, fingerprints of its data, and number of
    parameters.
    """
    import torch

    from dialog.comparison.parity import EvaluatedSystem
    from dialog.data.store.store import Store
    from dialog.models.seq2seq import count_parameters

    store = Store(data, "validation")
    with torch.device("meta"):
        model = build_model(contender.composed.recipe.model, len(store.tokenizer))
    entry = ModelResults(
        contender.name,
        contender.kind,
        parameters=count_parameters(model),
        runs=tuple(map(RunResults, seeds)),
    )
    fingerprints = {"data": store.manifest["fingerprint"], "tokenizer": store.tokenizer.fingerprint}
    return EvaluatedSystem(contender.composed.recipe, fingerprints, entry, {})


def check_output(folder: Path) -> None:
    """Raise UserError if a path exists that is not a comparison folder, nor one that is being
    created.
    """
    if folder.exists() and not is_comparison(folder):
        created = folder.is_dir() and all(
            path.name == LOCK or GRID in path.name for path in folder.iterdir()
        )
        if created or is_comparison(folder):  # another process may have written grid.json meanwhile
            return
        raise UserError(
            f"{folder} exists and is not a comparison folder (no {GRID}); choose another --output"
        )


def open_grid(
    folder: Path,
    contenders: Sequence[Contender],
    seeds: Sequence[int],
    overrides: Sequence[str],
    command: str,
    *,
    primary: str = "",
    looks: int = 0,
    metrics: Sequence[Component] = (),
    trust: Trust = NO_TRUST,
    given: Sequence[Row] = (),
) -> Grid:
    """Create a comparison folder, or add to one what it lacks; processes that start together take
    turns.

    Seeds are only added; primary metric, looks and metrics are kept unless they are given. The
    command is recorded if it changes the grid. `given` are the examples of ``--references``, which
    a new folder keeps.

    Raises:
        UserError: the folder has other files, or another recipe of the same name.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(
            f"{folder}: cannot be created ({error.strerror}); choose another --output"
        ) from error
    check_output(folder)
    with lock(folder / LOCK, wait=True):
        before = read_grid(folder, trust=trust) if is_comparison(folder) else Grid(folder, (), ())
        grid = merged(before, contenders, seeds, overrides)
        if given and not grid.references:
            lines = "".join(to_json(system_input(row)) + "\n" for row in given)
            write_text(folder / TEST_SET, lines)
            grid = replace(grid, references=sha256(folder / TEST_SET))
        grid = replace(
            grid,
            primary=primary or before.primary or LIKELIHOOD,
            looks=looks or before.looks,
            metrics=tuple(metrics) or before.metrics,
        )
        if grid != before:
            grid = replace(grid, commands=(*before.commands, command))
            write_grid(grid)
    return grid


def merged(
    grid: Grid, contenders: Sequence[Contender], seeds: Sequence[int], overrides: Sequence[str]
) -> Grid:
    """Return the grid with more contenders and seeds; trained runs of a contender's recipe are its
    seeds.
    """
    names = {contender.name: contender for contender in grid.contenders}
    trained = {
        contender.hash: contender.name for contender in grid.contenders if contender.kind == "runs"
    }
    for new in contenders:
        contender = (
            replace(new, name=trained.get(new.hash, new.name)) if new.kind == "runs" else new
        )
        before = names.setdefault(contender.name, contender)
        # a grid.json from elsewhere may have the hash of one command and the text of another
        if (before.kind, before.hash, before.system) != (
            contender.kind,
            contender.hash,
            contender.system,
        ):
            raise UserError(
                f"{grid.folder}: has another {contender.name} ({difference_of(before, contender)});"
                " choose another --output, or give the new one another name"
            )
        if contender.kind == "recipe" and before.tune != contender.tune:
            raise other_tune(grid.folder, before)
        if contender.kind == "runs":
            check_seeds(grid.folder, before, contender)
        folders = {**before.folders, **contender.folders}
        names[contender.name] = replace(
            before, folders=folders, trust=contender.trust, may_run=contender.may_run
        )
    more = [seed for seed in seeds if seed not in grid.seeds]
    named = {path for contender in contenders for path in contender.folders.values()}
    return replace(
        grid,
        named=None if grid.named is None else grid.named | named,
        contenders=tuple(names.values()),
        seeds=(*grid.seeds, *more),
        overrides=grid.overrides if grid.contenders else tuple(overrides),
    )


def check_seeds(folder: Path, before: Contender, added: Contender) -> None:
    """Check run folders that are added to a contender; one that was moved may be given again.

    Raises:
        UserError: one has the seed of another folder, or was trained on other data or devices.
    """
    for seed, path in added.folders.items():
        other = before.folders.get(seed, path)
        if other != path and Path(other).exists():
            raise UserError(
                f"{path}: {folder} has a run of the same recipe and seed {seed}, {other}; remove"
                " one of them"
            )
    folders = map(Path, {**before.folders, **added.folders}.values())
    check_same_conditions([path for path in folders if path.is_dir()])
