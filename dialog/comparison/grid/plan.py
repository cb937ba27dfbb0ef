"""Check a command line of ``compare`` before anything is written, and open its comparison
folder.
"""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from dialog.comparison.grid.contenders import check_trusted, read_contenders, split_folder
from dialog.comparison.grid.folder import (
    SPLIT,
    Contender,
    Grid,
    is_comparison,
    is_trained,
    read_grid,
)
from dialog.comparison.grid.open import check_output, merged, open_grid
from dialog.comparison.grid.responses import Row, examples_of_recipe, match_responses, read_test_set
from dialog.config.trust import FULL_TRUST, NO_TRUST, Trust
from dialog.errors import UserError, section
from dialog.paths import fresh_folder
from dialog.runs.check import check_recipe
from dialog.runs.prepare import prepare_data

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

    @property
    def command(self) -> str:
        """The command that repeats the comparison."""
        settings = [part for variation in self.variations for part in ("--vary", variation)]
        count = [] if self.seeds is None else ["--seeds", str(self.seeds)]
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
    inherited = [text for text in current.overrides if text not in request.overrides]
    new = read_contenders(
        names, request.overrides, request.variations, inherited=inherited, trust=request.trust
    )
    overrides = [*inherited, *request.overrides]
    planned = merged(current, new, seeds_of(current, new, request.seeds), overrides)
    check_trusted(planned)
    if len(planned.contenders) < 2:
        raise UserError(
            "compare needs at least two contenders: recipes, run folders of different recipes, or"
            " files of responses"
        )
    if request.seeds is not None and all(
        contender.kind != "recipe" for contender in planned.contenders
    ):
        raise UserError(
            f"--seeds {request.seeds}: applies to recipes; add trained runs of more seeds instead"
        )
    missing = any(
        cell.contender.kind == "recipe" and not is_trained(cell.folder) for cell in planned.cells()
    )
    if missing or planned != current:
        try:
            check_single_process(planned.contenders)
        except UserError as error:
            if not inherited or not new:
                raise
            raise UserError(
                f"{error}; new recipes have the settings of the comparison too"
                f" ({' '.join(inherited)}): if they do not fit, train the recipe first and add its"
                " run folder"
            ) from error
        data = prepare_all(planned.contenders, quiet=request.job)
        check_test_sets(planned.contenders, data)
        if request.strict:
            from dialog.comparison.grid.strict import check_strict

            check_strict(planned, data)
    folder = folder or fresh_folder("comparisons")
    opened = open_grid(folder, new, planned.seeds, overrides, request.command, trust=request.trust)
    return replace(opened, named=planned.named)


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


def prepare_all(contenders: Sequence[Contender], *, quiet: bool) -> dict[str, Path]:
    """Prepare the data of all recipes; return their folders by contender."""
    trained = [contender for contender in contenders if contender.kind != "responses"]
    return {
        contender.name: prepare_data(contender.composed.recipe, quiet=quiet)
        for contender in trained
    }


def check_test_sets(contenders: Sequence[Contender], data: Mapping[str, Path]) -> None:
    """Check that all contenders have the same test set; training data and tokenizers may differ.

    Args:
        contenders: Recipes, run folders and files of responses.
        data: Folders of prepared data by contender; contenders of one folder have one test set.

    Raises:
        UserError: a recipe with other test examples, or a file that does not answer all of them.
    """
    recipes = {
        contender.name: contender.composed.recipe
        for contender in contenders
        if contender.name in data
    }
    files = [contender.file for contender in contenders if contender.kind == "responses"]
    names: dict[Path, str] = {}  # the first contender of each folder
    for name, folder in data.items():
        names.setdefault(folder, name)
    first, *others = names.values() if names else ("",)
    if not others and not files:
        return
    expected = read_test_set(contenders, SPLIT)
    for name in others:
        if difference := first_difference(expected, examples_of_recipe(recipes[name], SPLIT)):
            raise UserError(
                f"{first} and {name} have different test sets ({difference}); give them the same"
                " corpus, data.filters and data.context_turns"
            )
    for file in files:
        match_responses(Path(file), expected)


def first_difference(expected: Sequence[Row], others: Sequence[Row]) -> str:
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
