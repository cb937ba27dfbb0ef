"""Files and folders appear complete or not at all; locks hold between processes."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from safetensors import SafetensorError

from dialog import atomic
from dialog.errors import UserError, disk_error

HOLDER = """
import sys
from contextlib import suppress
from pathlib import Path
from dialog.atomic import folder_lock, lock
path = Path(sys.argv[1])
with (folder_lock(path) if path.is_dir() else lock(path)) as held:
    print(held, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The calls of fsync and replace, in order, with the file's name."""
    calls: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        calls.append(("fsync", Path(f"/proc/self/fd/{handle}").resolve().name))
        fsync(handle)

    def replaced(source: Path, target: Path) -> None:
        calls.append(("replace", Path(target).name))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    return calls


def test_json_is_synced_then_renamed(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    atomic.write_json(tmp_path / "a.json", {"é": float("nan")})
    assert (tmp_path / "a.json").read_bytes() == '{\n "é": null\n}\n'.encode()
    (sync_file, temporary), *rest = calls
    assert (sync_file, temporary[:8]) == ("fsync", ".a.json.")
    assert rest == [("replace", "a.json"), ("fsync", tmp_path.name)]
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failed_write_keeps_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "a.txt"
    path.write_text("old")
    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="No space"):
        atomic.write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk_names_the_file(tmp_path: Path) -> None:
    def write(text: str) -> None:
        with atomic.replacing(tmp_path / "a") as new:
            new.symlink_to("/dev/full")
            new.write_text(text)

    def write_with_safetensors() -> None:
        with atomic.replacing(tmp_path / "a"):
            raise SafetensorError(
                "Error while serializing: I/O error: No space left on device (os error 28)"
            )

    for writer in (partial(write, "new"), write_with_safetensors):
        with pytest.raises(OSError, match="No space left") as raised:
            writer()
        assert (raised.value.errno, raised.value.filename) == (errno.ENOSPC, str(tmp_path / "a"))
    assert list(tmp_path.iterdir()) == []


def test_error_of_another_file_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised, atomic.replacing(tmp_path / "a"):
        (tmp_path / "b").read_text()
    assert raised.value.filename == str(tmp_path / "b")


def test_an_error_while_writing_leaves_nothing(tmp_path: Path) -> None:
    with suppress(ValueError), atomic.replacing(tmp_path / "a") as new:
        new.write_text("hal")
        raise ValueError
    with suppress(ValueError), atomic.new_folder(tmp_path / "b") as folder:
        (folder / "file").write_text("hal")
        raise ValueError
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_synced_then_renamed(tmp_path: Path, calls: list[tuple[str, str]]) -> None:
    with atomic.new_folder(tmp_path / "a") as folder:
        (folder / "file").write_text("text")
        assert not (tmp_path / "a").exists()
    assert (tmp_path / "a" / "file").read_text() == "text"
    assert ("fsync", "file") in calls
    assert calls[-1] == ("fsync", tmp_path.name)


def test_the_first_of_two_folders_stays(tmp_path: Path) -> None:
    with atomic.new_folder(tmp_path / "a") as later:
        (later / "file").write_text("later")
        with atomic.new_folder(tmp_path / "a") as first:
            (first / "file").write_text("first")
    assert (tmp_path / "a" / "file").read_text() == "first"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(NotADirectoryError), atomic.new_folder(tmp_path / "a"):
        pass
    assert (tmp_path / "a").read_text() == "mine"


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_locks_hold_until_the_process_ends(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    hold = atomic.folder_lock if kind == "folder" else atomic.lock
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout
    assert holder.stdout.readline() == b"True\n"
    with hold(path) as held:
        assert not held
    if kind == "folder":
        atomic.remove_unlocked(path)
        assert path.is_dir()
    holder.kill()
    holder.communicate()
    with hold(path) as held:
        assert held
    if kind == "folder":
        atomic.remove_unlocked(path)
        assert not path.exists()


def test_a_file_system_without_locks_is_no_other_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", fail)
    with (
        pytest.raises(OSError, match=r"No locks available: '.*a'") as raised,
        atomic.lock(tmp_path / "a"),
    ):
        pass
    assert str(disk_error(raised.value)).startswith(
        f"{tmp_path / 'a'}: No locks available; use a folder on a file system"
    )
    with atomic.folder_lock(tmp_path) as held:
        assert not held


def test_a_missing_folder_cannot_be_locked(tmp_path: Path) -> None:
    with atomic.folder_lock(tmp_path / "nowhere") as held:
        assert not held
    atomic.remove_unlocked(tmp_path / "nowhere")


def test_many_share_a_lock_and_none_removes_the_folder(tmp_path: Path) -> None:
    with (
        atomic.folder_lock(tmp_path, shared=True) as one,
        atomic.folder_lock(tmp_path, shared=True) as two,
    ):
        assert (one, two) == (False, False)
        atomic.remove_unlocked(tmp_path)
        assert tmp_path.is_dir()


def test_one_process_trains_in_a_folder(tmp_path: Path) -> None:
    with (
        atomic.run_lock(tmp_path),
        pytest.raises(UserError, match="another process trains in it"),
        atomic.run_lock(tmp_path),
    ):
        pass
    with atomic.run_lock(tmp_path):
        pass
