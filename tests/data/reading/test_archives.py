"""Extraction of zip and tar archives, including harmful ones."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from dialog.data.reading import archives
from dialog.data.reading.archives import unpack
from dialog.errors import UserError

TEXT = b"Where is the tea ?\nBehind the bread .\n" * 400
NOISE = hashlib.shake_256().digest(99_999)


def zip_of(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, content in members.items():
            opened.writestr(name, content)
    return packed.getvalue()


def tar_of(members: dict[str, bytes | tarfile.TarInfo]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as opened:
        for name, content in members.items():
            if isinstance(content, tarfile.TarInfo):
                opened.addfile(content)
            else:
                info = tarfile.TarInfo(name)
                info.size = len(content)
                opened.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


def unpacked(packed: bytes, folder: Path, *patterns: str) -> dict[str, bytes]:
    (folder / "archive").write_bytes(packed)
    target = folder / "target"
    unpack(folder / "archive", patterns, target)
    return {
        path.relative_to(target).as_posix(): path.read_bytes()
        for path in target.rglob("*")
        if path.is_file()
    }


def test_patterns_select_members_of_inner_archives(tmp_path: Path) -> None:
    inner = zip_of(
        {
            "train/lines_a.txt": b"a",
            "train/lines_b.txt": b"b",
            "train/readme": b"no",
            "__MACOSX/._x.txt": b"",
        }
    )
    packed = zip_of(
        {
            "tea/train.zip": inner,
            "tea/notes.txt": b"n",
            "tea/sub/": b"",
            "__MACOSX/tea/._notes.txt": b"junk",
        }
    )
    files = unpacked(packed, tmp_path, "train.zip!train/lines_*.txt", "*.txt")
    assert files == {"train/lines_a.txt": b"a", "train/lines_b.txt": b"b", "notes.txt": b"n"}


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_tar_and_zip_give_the_same_files(tmp_path: Path, pack: type[zip_of]) -> None:
    packed = pack({"tea/train.csv": TEXT, "tea/deep/test.csv": b"t", "tea/readme": b"no"})
    assert unpacked(packed, tmp_path, "*.csv") == {"train.csv": TEXT, "test.csv": b"t"}


HARMFUL = {
    "parent in a zip": (zip_of({"../evil.txt": b"evil"}), "points out of the archive"),
    "parent in a tar": (tar_of({"tea/../../evil.txt": b"evil"}), "points out of the archive"),
    "absolute path": (tar_of({"/tmp/evil.txt": b"evil"}), "points out of the archive"),
    "link": (tar_of({"a.txt": link("a.txt", "/etc/passwd")}), "not a regular file"),
    "link to a folder": (
        tar_of({"up": link("up", ".."), "up/../evil.txt": b"evil"}),
        "points out of the archive",
    ),
    "repeated path": (zip_of({"a/x.txt": b"1", "b/x.txt": b"2"}), "listed twice"),
    "no match": (zip_of({"x.csv": b"1"}), r"holds no \*\.txt"),
    "bomb": (zip_of({"x.txt": bytes(2**22)}), "too large for an archive"),
    "several bombs": (
        tar_of({f"{number}.txt": bytes(2**20) for number in range(4)}),
        "too large for an archive",
    ),
    "no archive": (b"<html>", "cannot be unpacked"),
    "truncated": (tar_of({"x.txt": NOISE})[:-9_999], "cannot be unpacked"),
    "damaged zip": (zip_of({"x.txt": NOISE}).replace(b"\x01", b"\x02"), "cannot be unpacked"),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_harmful_archives_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(archives, "BOMB_SIZE", 2**21)
    packed, message = HARMFUL[name]
    before = {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents}
    with pytest.raises(UserError, match=f"^archive.*{message}") as caught:
        unpacked(packed, tmp_path, "*.txt")
    assert "\n" not in str(caught.value)
    assert {path for path in tmp_path.parent.rglob("*") if tmp_path not in path.parents} == before
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 2**22
