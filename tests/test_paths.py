"""Names of folders, and new folders only."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialog import paths
from dialog.errors import UserError


def test_the_cache_follows_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    monkeypatch.delenv("DIALOG_CACHE")
    assert paths.cache() == Path("/x/dialog")
    monkeypatch.setenv("DIALOG_CACHE", "/y")
    assert paths.cache() == Path("/y")


def test_an_existing_folder_is_refused(tmp_path: Path) -> None:
    folder = paths.make_folder(tmp_path / "a" / "b")
    assert folder.is_dir()
    with pytest.raises(UserError, match="b exists; choose another --output"):
        paths.make_folder(folder)
    (tmp_path / "file").touch()
    with pytest.raises(
        UserError, match=r"cannot be created \(Not a directory\); choose another --output"
    ):
        paths.make_folder(tmp_path / "file" / "c")
    with pytest.raises(UserError, match="choose another DEST"):
        paths.make_folder(tmp_path / "file" / "c", "DEST")


def test_fresh_folders_differ() -> None:
    assert paths.fresh_folder("runs", "a/b").parent == Path("runs/a/b")
    assert len({paths.fresh_folder("runs") for _ in range(20)}) > 10


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("/x/runs/a/b", "a/b"),
        ("x/runs/runs/c", "c"),
        ("runs/old_runs/d", "old_runs/d"),
        ("other/d", "other/d"),
    ],
)
def test_names_begin_below_runs(folder: str, name: str) -> None:
    assert paths.name_of(Path(folder)) == name


@pytest.mark.parametrize(
    ("folder", "name"), [("/x/runs/a/b", "a/b"), ("/x/mine", "mine"), ("../x/mine", "mine")]
)
def test_a_run_elsewhere_is_shown_by_its_own_name(folder: str, name: str) -> None:
    assert paths.display_name(Path(folder)) == name


@pytest.mark.parametrize(
    ("run", "name"),
    [
        ("/x/runs/quickstart/lstm/seed-1", "quickstart/lstm"),
        ("runs/quickstart/lstm/20261126-124827-0c84", "quickstart/lstm"),
        ("runs/mine/large", "mine/large"),
        ("runs/mine", "mine"),
        ("/x/runs/mine", "mine"),
        ("/tmp/other/mine", "mine"),
    ],
)
def test_a_run_is_named_after_its_recipe_or_itself(run: str, name: str) -> None:
    assert paths.recipe_name(Path(run)) == name
