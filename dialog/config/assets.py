"""Folders of configs, recipes and sweeps: those of the package, and those of the project that a
recipe belongs to.
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

PROJECT_MARKS = (".git", "pyproject.toml")
"""Entries of a project's top folder."""


def shipped_folder(kind: str) -> Path:
    """Return the folder of the package named ``kind`` ("configs", "recipes", "sweeps")."""
    package = Path(str(files("dialog")))
    installed = package / "_assets" / kind
    return installed if installed.is_dir() else package.parent / kind


def config_folders(recipe: Path) -> list[Path]:
    """Return the folders ``configs`` that complete a recipe: those of its project, nearest first,
    then the package's.

    The project ends at the nearest folder with an entry of `PROJECT_MARKS`; without one, at the
    folder that contains ``recipes``, or at the working folder, if the recipe is below it. Folders
    of other owners than the user and the recipe's owner are left out: what somebody has put into a
    shared temporary folder is no part of the recipe.
    """
    recipe = recipe.resolve()
    owners = {os.geteuid(), recipe.stat().st_uid} if recipe.exists() else {os.geteuid()}
    above = [folder / "configs" for folder in project_folders(recipe)]
    own = [folder for folder in above if folder.is_dir() and folder.stat().st_uid in owners]
    return [*own, shipped_folder("configs")]


def project_folders(recipe: Path) -> list[Path]:
    """Return the folder of a recipe and those above it, up to the top folder of its project."""
    parents = list(recipe.parents)
    marked = [
        folder for folder in parents if any((folder / mark).exists() for mark in PROJECT_MARKS)
    ]
    above_recipes = [folder.parent for folder in parents if folder.name == "recipes"]
    working = [folder for folder in parents if folder == Path.cwd()]
    top = next(iter([*marked, *above_recipes, *working]), parents[0])
    return parents[: parents.index(top) + 1]
