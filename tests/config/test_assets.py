"""Folders of configs that complete a recipe: those of its project, and of nobody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dialog.config.compose import config_folders, shipped_folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A shared folder with configs that somebody has put there, and a project in it with configs of
    its own.
    """
    for folder in (tmp_path, tmp_path / "project", tmp_path / "project" / "work"):
        (folder / "configs").mkdir(parents=True)
    return tmp_path / "project"


def folders(recipe: Path) -> list[Path]:
    recipe.parent.mkdir(parents=True, exist_ok=True)
    recipe.touch()
    *own, shipped = config_folders(recipe)
    assert shipped == shipped_folder("configs")
    return own


@pytest.mark.parametrize("mark", [".git", "pyproject.toml"])
def test_a_project_ends_at_its_mark(mark: str, project: Path) -> None:
    (project / mark).touch()
    assert folders(project / "work" / "my.yaml") == [
        project / "work" / "configs",
        project / "configs",
    ]


def test_a_project_without_a_mark_ends_above_recipes(project: Path) -> None:
    assert folders(project / "recipes" / "small" / "my.yaml") == [project / "configs"]


def test_other_projects_end_at_the_working_folder(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folders(project / "work" / "my.yaml") == [project / "work" / "configs"]
    monkeypatch.chdir(project)
    assert folders(project / "work" / "my.yaml") == [
        project / "work" / "configs",
        project / "configs",
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_configs_of_another_user_are_left_out(project: Path) -> None:
    (project / ".git").touch()
    os.chown(project / "work" / "configs", 12345, 12345)
    recipe = project / "work" / "my.yaml"
    assert folders(recipe) == [project / "configs"]
    os.chown(recipe, 12345, 12345)
    assert folders(recipe) == [project / "work" / "configs", project / "configs"], (
        "the recipe's own author"
    )
