"""Names of contenders that are run folders."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from dialog.paths import display_name


def run_names(groups: Sequence[Mapping[int, Path]]) -> list[str]:
    """Return a name for each group of run folders by seed: their common folder, else what their
    paths begin with.

    ``runs/small/lstm/1`` and ``runs/small/lstm/2`` are ``small/lstm``, ``runs/lstm-1`` and
    ``runs/lstm-2`` are ``lstm`` beside runs of ``runs/transformer``. A single run is named by its
    folder, ``transformer-1`` without the seed. A folder that also has runs of other groups names
    none of them. If two names are equal, each group is named by the path of its first run.
    """
    # links keep their names
    paths = [[os.path.abspath(folder) for folder in group.values()] for group in groups]
    begun = [_start_of(group, folders) for group, folders in zip(groups, paths, strict=True)]
    single = [
        folders[0] if len(folders) == 1 else start
        for folders, start in zip(paths, begun, strict=True)
    ]
    shared = [
        os.path.commonpath(folders) if len(folders) > 1 else start
        for folders, start in zip(paths, begun, strict=True)
    ]
    names = whole = [next(iter(group.values())).as_posix().strip("/") for group in groups]
    for starts in (single, begun, shared):  # the last that serves
        candidates = [display_name(Path(start)) for start in starts]
        own = [
            bool(candidate)
            and candidates.count(candidate) == 1
            and not _has_others(start, folders, paths)
            for candidate, start, folders in zip(candidates, starts, paths, strict=True)
        ]
        names = [
            one if use else other for one, other, use in zip(candidates, names, own, strict=True)
        ]
    return names if len({*names}) == len(names) else whole


def _start_of(group: Mapping[int, Path], folders: Sequence[str]) -> str:
    """Return what the paths of runs begin with; of a single run the path without its seed,
    ``seed-1`` or ``-1``.
    """
    if len(folders) > 1:
        return os.path.commonprefix(folders).rstrip("-_.")  # noqa: RUF071 - names
    seed = next(iter(group))
    return folders[0].removesuffix(f"{os.sep}seed-{seed}").removesuffix(f"-{seed}")


def _has_others(start: str, folders: Sequence[str], paths: Sequence[Sequence[str]]) -> bool:
    """Return whether a folder contains runs of other groups."""
    return any(
        Path(path).is_relative_to(start)
        for others in paths
        if others is not folders
        for path in others
    )
