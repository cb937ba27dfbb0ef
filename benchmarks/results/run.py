"""Make the results of the recipes: process the queue of runs, and record finished tables.

    python benchmarks/results/run.py [--jobs N] [--core N ...] [--only NAME ...]     train, evaluate and compare
    python benchmarks/results/run.py --unrecorded ...                                only runs that no record has
    python benchmarks/results/run.py --trained ...                                   compare trained runs only
    python benchmarks/results/run.py --status                                        finished, running, left
    python benchmarks/results/run.py --record                                        write records and pages
    python benchmarks/results/run.py --decide [--only NAME ...]                      decide records by the present rules

The queue is queue.yaml, or --queue FILE. Runs go to --output (default runs/results), which git
ignores; a run of the same recipe, seed and data that is there already, under whatever name, is
continued or used as it is. Each run has one thread; OMP_NUM_THREADS=N gives N to the runs of all
jobs together. SIGTERM stops at a checkpoint with exit code 143; the same command continues, also
after a kill. A recipe that fails is reported at the end (exit code 1, or 2 if you can fix it) and
does not stop the others.

Nothing in the checkout is changed while the queue runs, so that all runs are of one commit;
--record does that.
Corpora are looked up in $DIALOG_DATA.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported

import argparse
import logging
import shlex
import sys
from pathlib import Path

from appendix import Folders, write_appendices
from entries import Entry, read_queue
from records import decide_again, record, without_recorded
from status import print_status
from tables import is_done, plan_table, train_table, trained_part

import dialog
from dialog.cli import leave, shorten_spinning
from dialog.errors import RunError, UserError
from dialog.signals import stopping
from sweeps import record_sweep, restore_sweep, run_sweep

ROOT = Path(dialog.__file__).parents[1]
log = logging.getLogger("dialog")


def main() -> None:
    """Parse the command line; exit as ``dialog`` does."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--queue", type=Path, default=Path(__file__).with_name("queue.yaml"), metavar="FILE"
    )
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "results", metavar="DIR")
    parser.add_argument(
        "--only", nargs="+", default=[], metavar="NAME", help="entries, or letters of stages"
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="runs at a time, of several recipes"
    )
    parser.add_argument("--core", type=int, nargs="+", metavar="N", help="use these cores only")
    parser.add_argument(
        "--recipes",
        type=Path,
        default=ROOT / "recipes",
        metavar="DIR",
        help="folder of the READMEs",
    )
    parser.add_argument(
        "--records", type=Path, default=Path(__file__).with_name("records"), metavar="DIR"
    )
    parser.add_argument(
        "--unrecorded", action="store_true", help="leave out runs that are recorded"
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--trained", action="store_true", help="evaluate and compare trained runs, train none"
    )
    action.add_argument(
        "--status", action="store_true", help="print finished, running and missing runs"
    )
    action.add_argument(
        "--record", action="store_true", help="write the records and the pages of the recipes"
    )
    action.add_argument(
        "--decide",
        action="store_true",
        help="write the verdicts of records anew, by the present rules",
    )
    options = parser.parse_args()
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
    log.setLevel(logging.INFO)
    shorten_spinning()
    if options.core:
        os.sched_setaffinity(0, options.core)
    queue = options.queue.resolve()
    output = options.output.resolve()
    recipes = options.recipes.resolve()
    records = options.records.resolve()
    os.chdir(ROOT)  # whose commit the runs record
    try:
        every = read_queue(queue)
        entries = chosen(every, options.only)
        recorded = queue.with_name("sweeps")
        for entry in every:
            restore_sweep(entry, output, recorded)
        if options.unrecorded and not options.record:
            entries = [without_recorded(entry, output, records) for entry in entries]
        if options.status:
            print_status(entries, output, every)
        elif options.record:
            for entry in entries:
                if entry.sweep:
                    record_sweep(entry, output, recorded)
            record([entry for entry in entries if entry.rows], output, records, recipes)
            corpora = {entry.corpus for entry in entries}
            write_appendices(corpora, every, Folders(records, recorded), recipes)
            log.info(
                "tables and figures of several records: page_tables.py, docs/images/results.py"
            )
        elif options.decide:
            decide_again([entry for entry in entries if entry.rows], records)
        else:
            advice = f"continue with: {shlex.join(['python', *sys.argv])}"
            with stopping(advice):
                process(entries, output, options.jobs, advice, train=not options.trained)
    except UserError as error:
        leave(str(error), 2)
    except RunError as error:
        leave(str(error), 1)
    except KeyboardInterrupt as error:
        leave(str(error) or "interrupted", 130)


def chosen(entries: list[Entry], only: list[str]) -> list[Entry]:
    """Return the entries with these names or stages; all without any."""
    unknown = set(only) - {entry.name for entry in entries} - {entry.stage for entry in entries}
    if unknown:
        raise UserError(
            f"--only {min(unknown)}: no entry or stage of this name; --status lists them"
        )
    return [entry for entry in entries if not only or entry.name in only or entry.stage in only]


def process(entries: list[Entry], output: Path, jobs: int, advice: str, *, train: bool) -> None:
    """Process all entries, one after the other; raise for those that failed at the end.

    Without `train`, only evaluate and compare the runs that are trained.

    Raises:
        UserError: entries failed for reasons that the user can fix.
        RunError: entries failed otherwise.
    """
    failures: dict[str, Exception] = {}
    for entry in entries:
        log.info("%s %s: %s", entry.stage, entry.name, entry.purpose)
        if entry.rows and not entry.seed_list:
            log.info("%s: all seeds are recorded", entry.name)
            continue
        try:
            if not entry.sweep:
                process_table(entry, output, jobs, advice, train=train)
            elif train:
                run_sweep(entry, output, advice)
        except Exception as error:  # the others continue; signals are no Exception
            failures[entry.name] = error
            log.error("%s failed: %s", entry.name, error)
    if failures:
        kind = (
            UserError
            if all(isinstance(error, UserError) for error in failures.values())
            else RunError
        )
        lines = "; ".join(f"{name}: {message_of(error)}" for name, error in failures.items())
        raise kind(f"{len(failures)} of {len(entries)} entries failed: {lines}")


def process_table(entry: Entry, output: Path, jobs: int, advice: str, *, train: bool) -> None:
    """Train, evaluate and compare what a table lacks; `advice` tells how to continue after a
    signal.
    """
    table = plan_table(entry, output, prepare=True)
    if not train:
        table = trained_part(table)
        if not table.grid.contenders:
            log.info("%s: no trained run", entry.name)
    for note in table.notes:
        log.warning("%s: %s", entry.name, note)
    failed: Exception | None = None
    if table.grid.contenders and not is_done(table, table.work()):
        try:
            train_table(table, jobs, advice)
        except (UserError, RunError) as error:
            failed = error
    if table.missing:
        lines = "; ".join(f"{name}: {reason}" for name, reason in table.missing.items())
        raise UserError("; ".join(filter(None, [lines, str(failed or "")])))
    if failed is not None:
        raise failed


def message_of(error: Exception) -> str:
    """Return the message of an error; for an unexpected one also its type."""
    return (
        str(error)
        if isinstance(error, UserError | RunError)
        else f"{type(error).__name__}: {error}"
    )


if __name__ == "__main__":
    main()
