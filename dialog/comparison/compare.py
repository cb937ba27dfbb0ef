"""Compare contenders: train and evaluate what is missing, analyse, write results.json and the
report.
"""

from __future__ import annotations

import gc
import logging
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from dialog.atomic import lock, write_json
from dialog.comparison.decisions.looks import LOOKS, write_looks
from dialog.comparison.decisions.primary import LIKELIHOOD, OVERLAP, requested_primary
from dialog.comparison.grid.folder import GRID, LOCK, Grid
from dialog.comparison.grid.jobs import end_with_parent, run_jobs
from dialog.comparison.grid.plan import Request
from dialog.comparison.grid.progress import Display
from dialog.comparison.grid.work import Work, identity
from dialog.comparison.parity import raise_broken
from dialog.config.trust import imported_names
from dialog.errors import RunError, UserError
from dialog.escaping import to_json
from dialog.json_files import read_json
from dialog.report.formats.results import RESULTS, Results, as_read, read_results
from dialog.signals import stopping

if TYPE_CHECKING:
    from dialog.comparison.results.systems import System

COLLECTION = 100_000
"""New objects after which `rare_collections` searches for cyclic garbage."""
log = logging.getLogger("dialog")


def compare(grid: Grid, request: Request, advice: str = "") -> Results | None:
    """Do the missing work of a comparison and write its report; return results.json.

    Args:
        grid: From `prepare_grid`.
        request: Number of jobs, and whether this process is one of them, which writes no report and
            returns None.
        advice: How to continue after a signal or a failure; by default with `compare FOLDER`.

    Raises:
        UserError: a run failed for a reason that the user can fix. The others are finished and
            reported.
        RunError: a run failed otherwise.
    """
    before = identity(grid.folder / RESULTS)
    options = (
        ["--trust"]
        if any(imported_names(contender.recipes) for contender in grid.contenders)
        else []
    )
    jobs = ["--jobs", str(request.jobs)] if request.jobs > 1 else []
    systems = [*system_options(grid), *metrics_options(grid)]
    again = shlex.join(
        ["python", "-m", "dialog", "compare", str(grid.folder), *options, *systems, *jobs]
    )
    work = Work(grid, advice or f"continue with: {again}", request.timeout)
    with stopping(work.advice), rare_collections(grid):
        if request.job:
            end_with_parent()
            work.run()
            return None
        work.warn_of_changed_programs()
        with Display(work, jobs=request.jobs).running():
            if request.jobs > 1 and any(not work.is_finished(cell) for cell in work.cells):
                run_jobs(
                    grid.folder,
                    min(request.jobs, len(work.cells)),
                    [*options, *named_options(grid), *systems, f"--timeout={request.timeout}"],
                )
            work.run()
        results = write_report(work, before)
    raise_failures(work)
    if request.strict:
        check_stated(grid)
        raise_broken(results.parity, report=grid.folder / "report.html")
    return results


@contextmanager
def rare_collections(grid: Grid) -> Iterator[None]:
    """Search rarely for cyclic garbage unless something is trained, whose cycles hold tensors: each
    search visits all responses, which takes a sixth of the time of comparing files.
    """
    usual = gc.get_threshold()
    if all(contender.kind == "responses" for contender in grid.contenders):
        gc.set_threshold(COLLECTION, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def named_options(grid: Grid) -> list[str]:
    """Return the options that tell a job which run folders outside of the comparison it may write
    to.
    """
    folders = [str(cell.folder) for cell in grid.cells() if cell.outside and cell.named]
    return [part for folder in folders for part in ("--named", folder)]


def check_stated(grid: Grid) -> None:
    """Check that the settings of all contenders are known: ``--strict``.

    Raises:
        UserError: one has no recipe.
    """
    names = [one.name for one in grid.contenders if one.kind == "responses"]
    if names:
        raise UserError(
            f"--strict: the settings of {', '.join(names)} are not known; the report is in"
            f" {grid.folder / 'report.html'}"
        )


def system_options(grid: Grid) -> list[str]:
    """Return the options that give the commands of systems again, as far as the caller has given
    them.
    """
    given = [one for one in grid.contenders if one.system and one.may_run]
    return [part for one in given for part in ("--system", one.program.option)]


def metrics_options(grid: Grid) -> list[str]:
    """Return the option that allows again to import metrics of files that the caller has named."""
    return ["--metrics", to_json(list(grid.metrics))] if imported_names(grid.metrics) else []


# ------------------------------------------------------------------ after training


def write_report(work: Work, before: tuple[int, int] | None) -> Results:
    """Write results.json and the report, unless another process has written them for the same runs
    meanwhile.

    Args:
        work: The finished runs.
        before: Identity of results.json when this process started.
    """
    folder = work.grid.folder
    with lock(folder / ".report.lock", wait=True):
        if identity(folder / RESULTS) not in (None, before) and not work.errors():
            results = read_results(folder)
            if covers(results, work):
                return results
        # imported late, since scipy takes longer to import than a small comparison to answer
        from dialog.comparison.preference.pairs import kept_sections
        from dialog.comparison.results.content import results_of
        from dialog.comparison.results.tracking import log_comparison
        from dialog.report.files import write_reports

        log.info("analysing the runs")
        began = time.monotonic()
        failures = {name: str(error["message"]) for name, error in work.errors().items()}
        systems = comparable_systems(work)
        results = results_of(with_measured_primary(work.grid, systems), systems, failures)
        results = replace(
            results,
            seconds=results.seconds + time.monotonic() - began,
            **kept_sections(folder / RESULTS, results),
        )
        results = as_read(results)
        write_looks(folder, results.looks)
        write_reports(results, folder)
        write_json(folder / RESULTS, results)
        log_comparison(work.grid, results)
    return results


def with_measured_primary(grid: Grid, systems: Sequence[System]) -> Grid:
    """Return a grid whose primary metric is measured for all systems: before the first report, F1
    in place of the default if a program has turned out to give no likelihood.

    Raises:
        UserError: a system lacks the metric of ``--primary``.
    """
    runs = [(system.name, run) for system in systems for run in system.measured_runs]
    lacking = [name for name, run in runs if grid.primary not in run.entry.metrics]
    if not lacking or (grid.folder / LOOKS).is_file():
        return grid
    if requested_primary(" && ".join(grid.commands)):
        raise UserError(
            f"--primary {grid.primary}: not measured for {', '.join(dict.fromkeys(lacking))}; all"
            f" responses are kept: continue with compare {grid.folder} --primary {OVERLAP}"
        )
    if grid.primary != LIKELIHOOD:
        return grid
    log.warning("%s: has no likelihood, so the primary metric is %s", lacking[0], OVERLAP)
    with lock(grid.folder / LOCK, wait=True):
        write_json(grid.folder / GRID, {**read_json(grid.folder / GRID), "primary": OVERLAP})
    return replace(grid, primary=OVERLAP)


def comparable_systems(work: Work) -> list[System]:
    """Return the contenders that have a finished run.

    Raises:
        UserError: fewer than two have an evaluated run, because runs failed or diverged.
        RunError: the same, if a run failed for a reason that the user cannot fix.
    """
    from dialog.comparison.results.systems import finished_systems

    systems = finished_systems(work)
    evaluated = [system.name for system in systems if system.measured_runs]
    if len(evaluated) < 2:
        raise_failures(work)
        runs = [cell for cell in work.cells if not cell.trial]
        without = [cell.name for cell in runs if cell.contender.name not in evaluated]
        raise UserError(
            f"nothing to compare: {', '.join(without)} diverged before the first validation; the"
            f" other runs are kept in {work.grid.folder}: add a contender with compare"
            f" {work.grid.folder} RECIPE"
        )
    check_same_examples(systems)
    return systems


def check_same_examples(systems: Sequence[System]) -> None:
    """Check that all runs are measured on the same examples in the same order, since statistics
    pair them.

    The order is that of the corpus, or of the first file if all contenders are files.
    """
    files_last = sorted(systems, key=lambda system: system.contender.kind == "responses")
    runs = [run for system in files_last for run in system.measured_runs]
    examples = [run.entry.metrics["fingerprint"] for run in runs]
    if wrong := [
        str(run.evaluation)
        for run, other in zip(runs, examples, strict=True)
        if other != examples[0]
    ]:
        raise UserError(
            f"{', '.join(wrong)}: measured on other examples than {runs[0].evaluation}, or in"
            " another order; remove what is listed first and repeat the command"
        )


def covers(results: Results, work: Work) -> bool:
    """Return whether results.json has all runs of the comparison."""
    reported = {(model.name, run.seed) for model in results.models for run in model.runs}
    runs = [cell for cell in work.cells if not cell.trial]
    return reported == {(cell.contender.name, cell.seed) for cell in runs}


def raise_failures(work: Work) -> None:
    """Raise for the runs that failed.

    Raises:
        UserError: all failed for reasons that the user can fix.
        RunError: others.
    """
    errors = work.errors()
    if not errors:
        return
    messages = "; ".join(f"{name}: {error['message']}" for name, error in errors.items())
    kind = UserError if all(error["code"] == 2 for error in errors.values()) else RunError
    raise kind(f"{len(errors)} of {len(work.cells)} runs failed: {messages}; {work.advice}")
