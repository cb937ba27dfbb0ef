"""Files found by a pattern, and decompression of .xz up to the end of the file."""

from __future__ import annotations

import lzma
import os
from pathlib import Path

import pytest

from dialog.data.reading.files import XZ_CHUNK, find_files, read_chunks
from dialog.errors import UserError


def create(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.csv", ["d.csv.xz", "e.csv"]),
        ("s*/*.csv", ["s1/a.csv", "s1/b.csv.gz", "s2/c.csv"]),
        (
            "**/*.csv",
            ["d.csv.xz", "e.csv", "other/deep/f.csv", "s1/a.csv", "s1/b.csv.gz", "s2/c.csv"],
        ),
    ],
)
def test_patterns_match_visible_names(tmp_path: Path, pattern: str, names: list[str]) -> None:
    create(
        tmp_path,
        "s2/c.csv",
        "s1/b.csv.gz",
        "s1/a.csv",
        "e.csv",
        "d.csv.xz",
        "other/deep/f.csv",
        "s1/g.txt",
    )
    create(tmp_path, "._e.csv", "s1/._a.csv", ".s3/h.csv", "__MACOSX/._i.csv")
    assert [
        path.relative_to(tmp_path).as_posix() for path in find_files(tmp_path, pattern, "hint")
    ] == names


def test_no_match_is_an_error_with_the_hint(tmp_path: Path) -> None:
    create(tmp_path, "a.txt")
    for folder in (tmp_path, tmp_path / "nothing", tmp_path / "a.txt"):
        with pytest.raises(UserError, match=rf"{folder} holds no \*\.csv; get it"):
            find_files(folder, "*.csv", "get it")


@pytest.mark.parametrize("pattern", ["*/*.csv", "**/*.csv"])
def test_an_unreadable_folder_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    create(tmp_path, "open/a.csv", "closed/b.csv")
    scan = os.scandir

    def scandir(path: Path) -> object:
        if Path(path).name == "closed":
            raise PermissionError(13, "Permission denied")
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(UserError, match=r"closed cannot be read \(Permission denied\)"):
        find_files(tmp_path, pattern, "hint")


WHOLE = lzma.compress(b"Hi !\n")


@pytest.mark.parametrize("zeros", [4, 8, XZ_CHUNK, 2 * XZ_CHUNK + 4])
def test_padding_after_xz_streams_is_skipped(tmp_path: Path, zeros: int) -> None:
    packed, padding = tmp_path / "a.xz", b"\0" * zeros
    for content in (WHOLE + padding, WHOLE + padding + WHOLE, WHOLE + WHOLE + padding):
        packed.write_bytes(content)
        assert b"".join(read_chunks(packed)) == b"Hi !\n" * content.count(WHOLE)


@pytest.mark.parametrize(
    "behind", [b"\0", b"\0" * 6, b"\0" * 4 + b"junk", b"\0" * 5 + WHOLE, b"\0" * (XZ_CHUNK + 1)]
)
def test_other_data_after_xz_streams_is_an_error(tmp_path: Path, behind: bytes) -> None:
    (tmp_path / "a.xz").write_bytes(WHOLE + behind)
    with pytest.raises(UserError, match=r"a\.xz cannot be read to its end \(.+\); get it again"):
        list(read_chunks(tmp_path / "a.xz"))
