"""Comparison folders of the queue's tables; the runs lie beside them and are shared between
tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from entries import Entry, compose_row
from machines import note_moves

from dialog.build import for_this_hardware
from dialog.comparison.compare import compare, covers, raise_failures
from dialog.comparison.grid.contenders import of_recipe
from dialog.comparison.grid.folder import Contender, Grid, contender_hash, is_trained
from dialog.comparison.grid.plan import Request, check_single_process, open_grid
from dialog.comparison.grid.work import Work
from dialog.comparison.results.content import network_sections
from dialog.comparison.results.systems import finished_systems
from dialog.config.compose import compose
from dialog.data.store.manifest import read_manifest
from dialog.errors import UserError
from dialog.json_files import read_json
from dialog.report.formats.results import RESULTS, VERSION, Results, read_results
from dialog.runs.folder import ENVIRONMENT, RECIPE, hash_of
from dialog.runs.prepare import prepare_data
from dialog.signals import stopping

SHORT = 8
"""Characters of a hash in the name of a folder."""
COMMAND = "python benchmarks/results/run.py --only {}"


@dataclass(frozen=True)
class Table:
    """The runs of a table that can be trained.

    Attributes:
        entry: Its entry in the queue.
        grid: Its comparison.
        missing: Reasons why contenders are left out, by name.
        hashes: Hash of each contender as composed, before ``precision: auto`` is resolved for this
            machine.
        notes: Run folders of the same recipe and seed that are not used, with the reason.
    """

    entry: Entry
    grid: Grid
    missing: dict[str, str]
    hashes: dict[str, str]
    notes: list[str] = field(default_factory=list)

    def work(self) -> Work:
        """Return the runs as this process sees them."""
        return Work(self.grid, advice="")


def plan_table(entry: Entry, output: Path, *, prepare: bool) -> Table:
    """Compose the contenders of a table and find their run folders; one that cannot be composed is
    left out.

    Args:
        entry: Of the queue.
        output: Folder of all runs.
        prepare: Prepare the data. A contender is then left out too if its data are missing or
            differ from those of the first, and a run of the same recipe and seed that was trained
            on other data is not used.
    """
    existing = existing_runs(output)
    contenders: list[Contender] = []
    missing: dict[str, str] = {}
    hashes: dict[str, str] = {}
    notes: list[str] = []
    first: Path | None = None
    for row in entry.rows:
        try:
            composed = compose_row(entry, row, output)
            resolved = replace(composed, recipe=for_this_hardware(composed.recipe))
            contender = of_recipe(resolved)
            check_single_process([contender])
            data = prepare_data(resolved.recipe) if prepare else None
            if None not in (first, data) and data != first:
                raise UserError(
                    f"its data differ from those of {contenders[0].name}; give it a table of"
                    " its own"
                )
            first = data
            folders = {
                seed: str(run_folder(output, contender, seed, existing, fingerprint(data), notes))
                for seed in entry.seed_list
            }
        except UserError as error:
            missing[row.name] = str(error)
            continue
        contenders.append(replace(contender, folders=folders))
        hashes[row.name] = contender_hash(composed.recipe)
    folder = output / "comparisons" / folder_name(entry.name, contenders)
    return Table(
        entry,
        Grid(folder, tuple(contenders), tuple(entry.seed_list), named=None),
        missing,
        hashes,
        notes,
    )


def folder_name(name: str, contenders: Sequence[Contender]) -> str:
    """Return a name for a comparison folder, with a hash of its recipes and run folders."""
    version = hash_of([[contender.hash, contender.folders] for contender in contenders])[:SHORT]
    return f"{name}-{version}"


def trained_part(table: Table) -> Table:
    """Return a table of the trained runs alone, with a comparison folder of its own; the table
    itself if all are.
    """
    trained: dict[str, dict[int, str]] = {contender.name: {} for contender in table.grid.contenders}
    cells = table.grid.cells()
    for cell in cells:
        if cell.seed is not None and is_trained(cell.folder):
            trained[cell.contender.name][cell.seed] = str(cell.folder)
    if sum(map(len, trained.values())) == len(cells):
        return table
    contenders = [
        replace(contender, kind="runs", folders=trained[contender.name])
        for contender in table.grid.contenders
        if trained[contender.name]
    ]
    folder = table.grid.folder.with_name(folder_name(f"{table.entry.name}-trained", contenders))
    return replace(table, grid=Grid(folder, tuple(contenders), (), named=None))


def compared(table: Table) -> Results | None:
    """Return results.json of a table's comparison folder; None if it has none, or one of other runs
    or of another version.
    """
    path = table.grid.folder / RESULTS
    if not path.is_file() or read_json(path).get("version") != VERSION:
        return None
    results = read_results(path.parent)
    return results if covers(results, table.work()) else None


def existing_runs(output: Path) -> dict[tuple[str, int], list[Path]]:
    """Map recipes (by hash) and seeds to the run folders of the output folder, however they are
    named.
    """
    runs: dict[tuple[str, int], list[Path]] = {}
    for path in sorted(output.glob(f"*/{RECIPE}")):
        recipe = compose(str(path)).recipe
        runs.setdefault((contender_hash(recipe), recipe.seed), []).append(path.parent)
    return runs


def run_folder(
    output: Path,
    contender: Contender,
    seed: int,
    existing: Mapping[tuple[str, int], list[Path]],
    data: str | None,
    notes: list[str],
) -> Path:
    """Return the folder of a run: one of the same recipe, seed and data, else a new one.

    Its name has a hash, so that processes that work on two tables at the same time do not give one
    folder to two runs.
    """
    for folder in existing.get((contender.hash, seed), []):
        trained_on = (
            read_json(folder / ENVIRONMENT, "data")["data"]
            if (folder / ENVIRONMENT).is_file()
            else None
        )
        if None in (data, trained_on) or trained_on == data:
            return folder.resolve()
        notes.append(
            f"{folder.name}: trained on other data ({trained_on[:12]}, now {data[:12]}), not used"
        )
    version = hash_of([contender.hash, data])[:SHORT]
    return (output / f"{contender.name.replace('/', '-')}-{seed}-{version}").resolve()


def fingerprint(data: Path | None) -> str | None:
    """Return the fingerprint of prepared data."""
    return None if data is None else str(read_manifest(data)["fingerprint"])


def is_done(table: Table, work: Work) -> bool:
    """Return whether all runs of a table are trained, evaluated and compared; one contender alone
    is not compared.
    """
    return (
        not table.missing
        and all(work.is_finished(cell) for cell in work.cells)
        and compared(table) is not None
    )


def train_table(table: Table, jobs: int, advice: str) -> None:
    """Train, evaluate and compare what is missing; of one contender alone, only measure what a
    comparison would.

    Args:
        table: From `plan_table`.
        jobs: Number of runs at a time, of several contenders.
        advice: How to continue after a signal or a failure.

    Raises:
        UserError, RunError: runs failed; the others are finished.
    """
    grid = table.grid
    grid = open_grid(grid.folder, grid.contenders, grid.seeds, (), COMMAND.format(table.entry.name))
    folders = [cell.folder for cell in grid.cells()]
    if len(grid.contenders) > 1:
        note_moves(folders, min(jobs, len(folders)))
        compare(grid, Request((), jobs=jobs), advice)
        return
    note_moves(folders, jobs=1)  # in this process
    work = Work(grid, advice)
    with stopping(advice):
        work.run()
        network_sections(finished_systems(work), samples=[])
    raise_failures(work)
