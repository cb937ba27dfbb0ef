"""Measured figures of ``dialog recipes``: means over current runs, and why others are not current."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dialog.cli.recipes import describe, table
from dialog.comparison.grid.folder import contender_hash
from dialog.config.compose import compose, shipped_recipes
from dialog.recipes import measured
from dialog.recipes.measured import changed_since, measured_figures, metric_at, record_files, summary

NAME = "reverse/transformer"
COMPOSED = compose(NAME)


def test_no_recorded_recipe_bans_or_requires_words() -> None:
    """Otherwise `WITHOUT_EFFECT` must not have their modules."""
    for path in record_files():
        for row in json.loads(path.read_text(encoding="utf-8"))["recipes"]:
            generation = compose(row["recipe"], row["overrides"]).recipe.generation
            assert not generation.banned
            assert not generation.required


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of one module, besides one that shows results, in a git repository."""
    package = tmp_path / "checkout" / "dialog"
    (package / "report").mkdir(parents=True)
    (package / "report" / "page.py").write_text("one = 1\n")
    (package / "part.py").write_text("one = 1\n")
    monkeypatch.setattr(measured, "files", lambda name: package)
    changed_since.cache_clear()
    git(package, "init", "--quiet")
    return package


def git(package: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", "-C", str(package.parent), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def commit(package: Path) -> str:
    git(package, "add", "--all")
    git(package, "commit", "--quiet", "--message", "change")
    return git(package, "describe", "--always", "--abbrev=12")


def record(folder: Path, runs: list[dict[str, Any]], **changes: object) -> None:
    row = {
        "name": NAME,
        "recipe": NAME,
        "overrides": [],
        "hash": contender_hash(COMPOSED.recipe),
        "runs": runs,
        **changes,
    }
    path = folder / "reverse" / "results" / "table.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"name": "table", "recipes": [row]}))


def run_of(seed: int, commit: str, value: float) -> dict[str, Any]:
    metrics = {"answer_accuracy": value, "alignment_accuracy": 1.0}
    return {"seed": seed, "commits": [commit], "date": "2026-01-01", "metrics": metrics}


def test_figures_are_of_current_runs(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "shipped_folder", lambda kind: tmp_path / "recipes")
    old = commit(package)
    (package.parent / "page.md").write_text("not of the package")
    (package / "report" / "page.py").write_text("without effect on results")
    same = commit(package)
    record(tmp_path / "recipes", [run_of(1, old, 0.98), run_of(2, same, 1.0)])
    exact, aligned = measured_figures(COMPOSED)[()]
    assert (exact.seeds, exact.commit, exact.table) == ([1, 2], f"{old}, {same}", "table")
    both = "answer_accuracy 99.0 ± 1.4 %, alignment_accuracy 100.0 ± 0.0 % (2 seeds)"
    assert summary([exact, aligned]) == both

    (package / "part.py").write_text("one = 2\n")
    new = commit(package)
    changed_since.cache_clear()
    record(tmp_path / "recipes", [run_of(1, old, 0.5), run_of(2, new, 1.0)])
    assert summary(measured_figures(COMPOSED)[()][:1]) == "answer_accuracy 100.0 % (1 seed)"
    record(tmp_path / "recipes", [run_of(1, old, 0.5)])
    (exact, _) = measured_figures(COMPOSED)[()]
    assert exact.stale == f"measured at {old}, the code has changed since"
    assert summary([exact]) == "answer_accuracy 50.0 % (1 seed) †"
    assert table([describe(COMPOSED)])[-1].startswith("† The package or the recipe has changed since")
    assert changed_since(f"{new}-dirty") == f"measured at {new} with uncommitted changes"


PART = '''"""Part."""
one = 1
"""One."""


def f() -> int:
    """One."""
    if one < 0:
        raise UserError("negative")
    if one == 0:
        raise ValueError("zero")
    return one
'''
SAME = '''"""A part."""
from checks import check_two, check_three
one = 1  # the first


def f() -> int:
    """Return one."""

    log.info("returning %d", one)
    if one == 0:
        raise ValueError(f"{one} is no one")
    if one > 1e9:
        raise UserError("too large")
    check_two(one)
    if one > 2:
        check_three(one)
    return one


def check_three(number: int) -> None:
    """Raise for three."""
    for three in [3]:
        if number == three:
            raise UserError("three")
'''


def test_comments_docstrings_and_messages_change_no_result(package: Path) -> None:
    part = package / "part.py"
    part.write_text(PART)
    now = commit(package)
    part.write_text(SAME)
    assert changed_since(now) == ""
    for change in (one_is_two, other_import, another_error, another_branch, not_python, other_file, without_part):
        change(part)
        changed_since.cache_clear()
        assert changed_since(now) == f"measured at {now}, the code has changed since", change
        git(package, "checkout", now, "--", "dialog")
        git(package, "clean", "--force", "--quiet", "-d")


def one_is_two(part: Path) -> None:
    part.write_text(part.read_text().replace("one = 1", "one = 2"))


def other_import(part: Path) -> None:
    part.write_text("from parts import one\n" + part.read_text().replace("one = 1\n", ""))


def another_error(part: Path) -> None:
    part.write_text(part.read_text().replace("ValueError", "KeyError"))


def another_branch(part: Path) -> None:
    part.write_text(part.read_text().replace("    return one", "    if one > 1:\n        return 2\n    return one"))


def not_python(part: Path) -> None:
    part.write_text("one = (")


def other_file(part: Path) -> None:
    part.with_suffix(".txt").write_text("a table")
    git(part.parent, "add", "--all")


def without_part(part: Path) -> None:
    part.unlink()


def test_runs_of_several_old_commits_are_one_result(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "shipped_folder", lambda kind: tmp_path / "recipes")
    old = commit(package)
    (package / "part.py").write_text("one = 2\n")
    older = [old, commit(package)]
    (package / "part.py").write_text("one = 3\n")
    commit(package)
    record(tmp_path / "recipes", [run_of(seed, one, seed / 10) for seed, one in enumerate(older, 1)])
    (exact, _) = measured_figures(COMPOSED)[()]
    assert exact.stale == "; ".join(f"measured at {one}, the code has changed since" for one in older)
    assert summary([exact]) == "answer_accuracy 15.0 ± 7.1 % (2 seeds) †"


def test_the_table_with_most_seeds_is_shown(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "shipped_folder", lambda kind: tmp_path / "recipes")
    now = commit(package)
    record(tmp_path / "recipes", [run_of(1, now, 0.5), run_of(2, now, 0.5)])
    several = tmp_path / "recipes" / "reverse" / "results" / "table.json"
    several.rename(several.with_name("several.json"))
    record(tmp_path / "recipes", [run_of(1, now, 0.5)])
    assert {len(figure.seeds) for figure in measured_figures(COMPOSED)[()]} == {2}
    several.with_name("same.json").write_bytes(several.with_name("several.json").read_bytes())
    assert len(measured_figures(COMPOSED)[()]) == 2  # metrics
    assert not [line for line in table([describe(COMPOSED)]) if "†" in line]


def test_figures_of_another_recipe_are_not_current(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "shipped_folder", lambda kind: tmp_path / "recipes")
    now = commit(package)
    record(tmp_path / "recipes", [run_of(1, now, 0.5)], hash="another")
    assert {figure.stale for figure in measured_figures(COMPOSED)[()]} == {"the recipe has changed since"}


def test_figures_with_overrides_are_apart(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "shipped_folder", lambda kind: tmp_path / "recipes")
    now = commit(package)
    hash_of_five = contender_hash(compose(NAME, ["trainer.max_steps=5"]).recipe)
    record(tmp_path / "recipes", [run_of(1, now, 0.5)], overrides=["trainer.max_steps=5"], hash=hash_of_five)
    found = measured_figures(COMPOSED)
    assert list(found) == [(), ("trainer.max_steps=5",)]
    assert found[()] == []
    assert summary(found["trainer.max_steps=5",]) == "answer_accuracy 50.0 %, alignment_accuracy 100.0 % (1 seed)"
    (line,) = [line for line in table([describe(COMPOSED)]) if "max_steps" in line]
    assert line.endswith("alignment_accuracy 100.0 % (1 seed) with trainer.max_steps=5")

    changes = ["trainer.max_steps=5", "model.decoder.attention={name: none}"]
    record(tmp_path / "recipes", [run_of(1, now, 0.5)], overrides=changes)
    (line,) = [line for line in table([describe(COMPOSED)]) if "none" in line]
    assert line.endswith(" with 'model.decoder.attention={name: none}' trainer.max_steps=5"), "what it is comes first"

    record(tmp_path / "recipes", [run_of(1, now, 0.5)], overrides=["model.of_old=5"])
    (exact, _) = measured_figures(COMPOSED)["model.of_old=5",]
    assert exact.stale == "the recipe has changed since"


def test_nested_metrics_and_scores() -> None:
    metrics = {"parlai_sets": {"S1": 29.5}, "sacrebleu": {"score": 3, "signature": "x"}, "lossless": True}
    assert metric_at(metrics, "parlai_sets.S1") == 29.5
    assert metric_at(metrics, "sacrebleu") == 3.0
    assert metric_at(metrics, "parlai_sets") is metric_at(metrics, "lossless") is metric_at(metrics, "f1.x") is None


def test_recorded_means_are_as_expected() -> None:
    """Those of shipped recipes without overrides, so that `verify --full` holds where runs differ little."""
    compared = 0
    for name in shipped_recipes():
        composed = compose(name)
        expected = {item["metric"]: item for item in composed.recipe.expect}
        for figure in measured_figures(composed)[()]:
            item = expected[figure.metric]
            assert abs(figure.mean - item["value"]) <= item["tolerance"], f"{name}: {figure.text()}"
            compared += 1
    assert compared >= 20
