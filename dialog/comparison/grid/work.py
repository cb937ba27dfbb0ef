"""Train and evaluate the runs that a comparison lacks; several processes may share the work, with
one lock per run.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from dialog.atomic import write_json
from dialog.build import build_corpus
from dialog.comparison.grid.folder import (
    DIVERGED,
    SPLIT,
    Cell,
    Contender,
    Grid,
    is_diverged,
    is_trained,
)
from dialog.comparison.grid.responses import (
    measure_responses,
    measured_responses,
    read_test_set,
)
from dialog.comparison.grid.test_set import Row, system_input
from dialog.comparison.grid.tuning import all_diverged, with_choices
from dialog.comparison.systems.answers import Answers, warn_of_changed_files
from dialog.comparison.systems.program import answer_contexts
from dialog.config.compose import Composed, with_seed
from dialog.errors import DivergedError, RunError, UserError
from dialog.json_files import read_json
from dialog.runs.evaluation.evaluated import Evaluated, corpus_hash, current_evaluation
from dialog.runs.folder import RECIPE, WEIGHTS, read_recipe
from dialog.runs.train import PartOf, resume, train

LISTED = 4
"""Number of runs that a message names."""
WAIT = 0.5
"""Seconds between two looks at runs that other processes work on."""

log = logging.getLogger("dialog")


@dataclass
class Work:
    """The trials and runs of a comparison as this process sees them.

    The runs of a contender with values to choose from wait until all of its trials are trained.

    A failed run does not stop the others. It is tried again by the next command, and by processes
    that had started before it failed, not by this one.

    Args:
        grid: The comparison.
        advice: What to do after a signal.
        timeout: Seconds for a response of a program.
    """

    grid: Grid
    advice: str
    timeout: float = 300.0
    evaluations: dict[str, Evaluated] = field(default_factory=dict)
    """Finished evaluations by the name of their cell."""

    def __post_init__(self) -> None:
        self.choose()
        self.earlier = {cell.name: identity(cell.error_file) for cell in self.cells}
        self.hashes: dict[str, str | None] = {}

    def choose(self) -> None:
        """Choose the values of contenders whose trials are trained."""
        self.grid = with_choices(self.grid)
        self.cells = self.grid.cells()

    def run(self) -> None:
        """Finish all runs but those that fail; wait for those that other processes work on."""
        waiting = False
        while open_cells := self.open_cells():
            worked = False
            for cell in open_cells:
                with cell.locked() as held:
                    worked = worked or held
                    if held and not self.is_finished(cell) and self.error(cell) is None:
                        with recorded_error(cell):
                            self.finish(cell)
            if not worked:
                if not waiting:
                    log.info("waiting for %s, on which other processes work", listed(open_cells))
                waiting = True
                time.sleep(WAIT)

    def open_cells(self) -> list[Cell]:
        """Return the runs that have neither finished nor failed: those that were interrupted, then
        new ones.
        """
        self.choose()
        open_cells = [
            cell
            for cell in self.cells
            if not cell.contender.tune and not self.is_finished(cell) and self.error(cell) is None
        ]
        return sorted(open_cells, key=lambda cell: not (cell.folder / RECIPE).is_file())

    def finish(self, cell: Cell) -> None:
        """Train and evaluate a run unless that is done."""
        if cell.contender.kind == "responses":
            if cell.contender.system:
                self.answer(cell)
            evaluated = measure_responses(cell, self.grid, SPLIT, self.test_set)
            self.evaluations[cell.name] = evaluated
            return
        cell.check_named()
        if cell.contender.kind == "recipe":
            train_cell(cell, group=self.grid.folder.resolve().name, advice=self.advice)
        if cell.trial:
            return
        if (cell.folder / WEIGHTS).is_file() and self.evaluation(cell) is None:
            from dialog.comparison.context_use import measure_context_use, sample_of
            from dialog.runs.evaluation.evaluate import evaluate
            from dialog.runs.load import load

            run = load(cell.folder, trust=cell.contender.trust)
            evaluated = evaluate(run, SPLIT, quiet=True)
            try:
                sample = sample_of(run, SPLIT)
                measure_context_use(run, evaluated.folder, sample, cell.check_named)
            except (
                Exception
            ) as error:  # measured again by the analysis, which does without it if need be
                log.warning("%s: use of the context not measured: %s", cell.name, reason(error))
                log.debug("where:", exc_info=True)
            self.evaluations[cell.name] = evaluated

    @cached_property
    def test_set(self) -> list[Row]:
        """Examples of the test set."""
        return read_test_set(self.grid, SPLIT)

    def answer(self, cell: Cell) -> None:
        """Have the program of a system answer the contexts that lack an answer."""
        cell.check_may_run()
        rows = [system_input(row) for row in self.test_set]
        program = cell.contender.program
        answers = Answers(cell.folder, program.name, [row["id"] for row in rows])
        answer_contexts(program, rows, answers, seconds=self.timeout)

    def warn_of_changed_programs(self) -> None:
        """Log a line for each program that the caller has given, that has answered everything, and
        that has changed since.
        """
        for cell in self.cells:
            contender = cell.contender
            if contender.system and contender.may_run and self.is_finished(cell):
                files = contender.program.fingerprint()["files"]
                warn_of_changed_files(cell.folder, contender.name, files)

    # -------------------------------------------------------------- states

    def is_finished(self, cell: Cell) -> bool:
        """Return whether a run is trained and evaluated, or has diverged before its first
        validation; a trial is trained, or no longer needed.
        """
        if cell.trial:
            return is_trained(cell.folder) or cell.contender.name in self.grid.chosen
        if cell.contender.kind == "recipe" and not is_trained(cell.folder):
            return False
        if is_diverged(cell.folder) and not (cell.folder / WEIGHTS).is_file():
            return True
        return self.evaluation(cell) is not None

    def evaluation(self, cell: Cell) -> Evaluated | None:
        """Return the evaluation of a run if its weights, settings and data are the present ones."""
        if cell.name in self.evaluations:
            return self.evaluations[cell.name]
        if cell.contender.kind == "responses":
            if evaluated := measured_responses(cell, self.grid, SPLIT):
                self.evaluations[cell.name] = evaluated
        elif (cell.folder / RECIPE).is_file():
            recipe = read_recipe(cell.folder)
            corpus = self.corpus_hash(cell.contender)
            if evaluated := current_evaluation(cell.folder, recipe, SPLIT, corpus):
                self.evaluations[cell.name] = evaluated
        return self.evaluations.get(cell.name)

    def corpus_hash(self, contender: Contender) -> str | None:
        """Return the hash of a contender's corpus; None if its files are missing."""
        if contender.name not in self.hashes:
            self.hashes[contender.name] = corpus_hash(
                build_corpus(contender.composed.recipe, read=False)
            )
        return self.hashes[contender.name]

    def error(self, cell: Cell) -> dict[str, Any] | None:
        """Return the error of a run that has failed since this process started."""
        if identity(cell.error_file) in (None, self.earlier.get(cell.name)):
            return None
        try:
            return read_json(cell.error_file, "message", "code")
        except UserError:  # removed meanwhile: another process tries again
            return None

    def errors(self) -> dict[str, dict[str, Any]]:
        """Return the errors of all failed runs by name, and of contenders whose trials have all
        diverged.
        """
        errors = {cell.name: self.error(cell) for cell in self.cells if not self.is_finished(cell)}
        for contender in self.grid.contenders:
            if all_diverged(self.grid, contender):
                message = (
                    f"all {len(contender.trials)} trials diverged; compare it with other values"
                )
                errors[contender.name] = {"message": message, "code": 2}
        return {name: error for name, error in errors.items() if error is not None}


@contextmanager
def recorded_error(cell: Cell) -> Iterator[None]:
    """Record and log the error of a run, in place of an earlier one; the other runs continue."""
    cell.error_file.unlink(missing_ok=True)
    try:
        yield
    except Exception as error:  # interruptions are no Exception
        log.error("%s failed: %s", cell.name, reason(error))
        log.debug("where:", exc_info=True)
        write_json(cell.error_file, {"message": reason(error), "code": exit_code(error)})


def train_cell(cell: Cell, *, group: str, advice: str) -> None:
    """Train a run, or resume it at its last checkpoint; a divergence is recorded in `DIVERGED`."""
    if is_trained(cell.folder):
        return
    try:
        if (cell.folder / RECIPE).is_file():
            log.info("resuming %s", cell.name)
            resume(cell.folder, trust=cell.contender.trust, quiet=True, advice=advice)
        else:
            log.info("training %s", cell.name)
            train(
                recipe_of(cell), cell.folder, quiet=True, part_of=PartOf(cell.name, group, advice)
            )
    except DivergedError as error:
        log.warning("%s diverged: %s", cell.name, error)
        write_json(cell.folder / DIVERGED, {"message": str(error)})


def recipe_of(cell: Cell) -> Composed:
    """Return the recipe of a run, without a progress bar of its own."""
    composed = cell.contender.composed
    trainer = replace(composed.recipe.trainer, enable_progress_bar=False)
    return with_seed(
        replace(composed, recipe=replace(composed.recipe, trainer=trainer)), int(cell.seed or 0)
    )


def identity(path: Path) -> tuple[int, int] | None:
    """Return inode and time of a file, which change when it is replaced; None if it is missing."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def reason(error: Exception) -> str:
    """Return the message of an error; for an unexpected one also its type."""
    return (
        str(error)
        if isinstance(error, UserError | RunError)
        else f"{type(error).__name__}: {error}"
    )


def exit_code(error: Exception) -> int:
    """Return the exit code of an error: 2 if the user can fix it."""
    return 2 if isinstance(error, UserError) else 1


def listed(cells: Sequence[Cell]) -> str:
    """Return the names of the first `LISTED` cells, and the number of the others."""
    more = f" and {len(cells) - LISTED} more" if len(cells) > LISTED else ""
    return ", ".join(cell.name for cell in cells[:LISTED]) + more
