"""Create a comparison folder, or add contenders and seeds to one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dialog.atomic import lock
from dialog.comparison.grid.folder import (
    GRID,
    LOCK,
    Contender,
    Grid,
    check_same_conditions,
    flat,
    is_comparison,
    is_ignored,
    read_grid,
    write_grid,
)
from dialog.config.trust import NO_TRUST, Trust
from dialog.errors import UserError


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
    trust: Trust = NO_TRUST,
) -> Grid:
    """Create a comparison folder, or add to one what it lacks; processes that start together take
    turns.

    Seeds are only added. The command is recorded if it changes the grid.

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
        if (before.kind, before.hash) != (contender.kind, contender.hash):
            raise UserError(
                f"{grid.folder}: has another {contender.name} ({difference(before, contender)});"
                " choose another --output, or give the new one another name"
            )
        if contender.kind == "runs":
            check_seeds(grid.folder, before, contender)
        folders = {**before.folders, **contender.folders}
        names[contender.name] = replace(before, folders=folders, trust=contender.trust)
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


def difference(one: Contender, other: Contender) -> str:
    """Return the first setting in which two contenders of the same name differ."""
    if (one.kind, other.kind) != ("recipe", "recipe"):
        return f"{one.kind}, not {other.kind}" if one.kind != other.kind else "other content"
    before, now = (flat(contender.recipe) for contender in (one, other))
    key = next(
        key for key in {**before, **now} if before.get(key) != now.get(key) and not is_ignored(key)
    )
    return f"{key} is {before.get(key)} there and {now.get(key)} here"
