"""CITATION.cff, CHANGELOG.md, the pre-commit hooks, the workflow and the source distribution agree
with the project.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

import dialog

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def read_yaml(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
    return content


def test_the_citation_is_of_this_version() -> None:
    citation = read_yaml("CITATION.cff")
    assert {"cff-version", "message", "title", "authors"} <= citation.keys()
    assert citation["version"] == dialog.__version__
    assert citation["license"] == PYPROJECT["project"]["license"]
    assert citation["authors"] == PYPROJECT["project"]["authors"]


def test_the_changelog_has_this_version_after_what_is_unreleased() -> None:
    headings = re.findall(
        r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert headings[:2] == ["Unreleased", dialog.__version__]


def test_hooks_are_the_commands_of_make_lint() -> None:
    repositories = read_yaml(".pre-commit-config.yaml")["repos"]
    assert {repository["repo"] for repository in repositories} == {"local"}  # nothing is downloaded
    hooks = [hook["entry"] for repository in repositories for hook in repository["hooks"]]
    recipe = re.search(
        r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert recipe
    assert hooks == [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe[1].splitlines()]


def test_the_workflow_runs_all_checks_and_may_write_nothing() -> None:
    workflow = read_yaml(".github/workflows/ci.yml")
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    assert job["steps"][-1] == {"run": ".ci/run"}
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


def test_all_that_a_source_distribution_lists_exists() -> None:
    included = PYPROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert [name for name in included if not (ROOT / name).exists()] == []
    assert {path.name for path in ROOT.iterdir() if path.suffix in (".md", ".cff")} <= set(included)
