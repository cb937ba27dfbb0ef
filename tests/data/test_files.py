"""Files by a pattern: all that are there, or the folder that hides some of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dialog.data.files import find_files
from dialog.errors import UserError


def lay(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.csv", ["d.csv.xz", "e.csv"]),
        ("s*/*.csv", ["s1/a.csv", "s1/b.csv.gz", "s2/c.csv"]),
        ("**/*.csv", ["d.csv.xz", "e.csv", "other/deep/f.csv", "s1/a.csv", "s1/b.csv.gz", "s2/c.csv"]),
    ],
)
def test_names_that_fit_are_found_and_hidden_ones_are_not(tmp_path: Path, pattern: str, found: list[str]) -> None:
    lay(tmp_path, "s2/c.csv", "s1/b.csv.gz", "s1/a.csv", "e.csv", "d.csv.xz", "other/deep/f.csv", "s1/g.txt")
    lay(tmp_path, "._e.csv", "s1/._a.csv", ".s3/h.csv", "__MACOSX/._i.csv")
    assert [path.relative_to(tmp_path).as_posix() for path in find_files(tmp_path, pattern, "hint")] == found


def test_none_is_refused_with_the_hint(tmp_path: Path) -> None:
    lay(tmp_path, "a.txt")
    for folder in (tmp_path, tmp_path / "nothing", tmp_path / "a.txt"):
        with pytest.raises(UserError, match=rf"{folder} holds no \*\.csv; get it"):
            find_files(folder, "*.csv", "get it")


@pytest.mark.parametrize("pattern", ["*/*.csv", "**/*.csv"])
def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str) -> None:
    lay(tmp_path, "open/a.csv", "closed/b.csv")
    scan = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(UserError, match=r"closed cannot be read \(Permission denied\)"):
        find_files(tmp_path, pattern, "hint")
