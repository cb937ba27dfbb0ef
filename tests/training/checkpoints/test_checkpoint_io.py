"""Checkpoints are written atomically and checked when they are read."""

from __future__ import annotations

import errno
import json
import logging
import os
import random
import resource
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import pytest
import torch

from dialog.errors import UserError
from dialog.training.checkpoints import checkpoint_io
from dialog.training.checkpoints.checkpoint_io import (
    BEST,
    FORMAT,
    LAST,
    MANIFEST,
    PREVIOUS,
    SafeCheckpointIO,
    clean_up,
)
from dialog.version import __version__

CALLS = ("fsync", "link", "replace")
SIZE = 200


def save(folder: Path, number: int, name: str = LAST, size: int = SIZE) -> None:
    state = torch.full((size,), float(number))
    SafeCheckpointIO().save_checkpoint({"number": number, "state": state}, folder / name)


def load(folder: Path, name: str = LAST) -> int:
    content = SafeCheckpointIO().load_checkpoint(folder / name)
    assert (content["state"] == content["number"]).all()
    return int(content["number"])


def temporaries(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(".")]


@pytest.fixture
def two(tmp_path: Path) -> Path:
    """A folder with checkpoints 1 (previous) and 2 (last)."""
    folder = tmp_path / "checkpoints"
    save(folder, 1)
    save(folder, 2)
    return folder


@pytest.fixture
def at_call(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], object]], None]:
    """``at_call(n, action)``: run an action before the n-th call of `CALLS`."""

    def set_up(number: int, action: Callable[[], object]) -> None:
        calls = count(1)

        def wrapped(call: Callable[..., Any]) -> Callable[..., Any]:
            def instead(*arguments: Any) -> Any:
                if next(calls) == number:
                    action()
                return call(*arguments)

            return instead

        for name in CALLS:
            monkeypatch.setattr(os, name, wrapped(getattr(os, name)))

    return set_up


# ------------------------------------------------------------------ kills


def in_fork(function: Callable[[], object]) -> int:
    """Run a function in a fork; return its exit code."""
    child = os.fork()
    if not child:
        function()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("name", [LAST, BEST])
def test_kill_at_any_call_leaves_the_old_or_the_new(
    two: Path, tmp_path: Path, at_call: Callable[..., None], name: str
) -> None:
    save(two, 2, BEST)
    for number in count(1):
        folder = shutil.copytree(two, tmp_path / str(number))

        def killed(folder: Path = folder, number: int = number) -> None:
            at_call(number, lambda: os.kill(os.getpid(), signal.SIGKILL))
            save(folder, 3, name)

        ended = in_fork(killed)
        assert load(folder, name) in ((3,) if not ended else (2, 3))
        assert load(folder, LAST) in (2, 3)
        clean_up(folder)
        assert temporaries(folder) == []
        assert set(json.loads((folder / MANIFEST).read_text())) >= {BEST, LAST}
        save(folder, 4, name)
        assert load(folder, name) == 4
        if name == LAST:
            assert load(folder, PREVIOUS) in ((3,) if not ended else (2, 3))
        if not ended:
            break
        assert ended == -signal.SIGKILL
    assert number > 8


def inode(path: Path) -> int:
    return path.stat().st_ino if path.exists() else 0


@pytest.mark.endurance
def test_kills_at_random_moments_of_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TMPDIR is on another file system, where Lightning's own atomic save would not be atomic."""
    shared_memory = Path("/dev/shm")
    elsewhere = Path(tempfile.mkdtemp(dir=shared_memory if shared_memory.is_dir() else None))
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    chance, torn = random.Random(1), 0
    for _ in range(10):
        clean_up(tmp_path)
        first = load(tmp_path) if (tmp_path / LAST).exists() else 0
        before_fork = inode(tmp_path / LAST)
        child = os.fork()
        if not child:
            for number in count(first + 1):
                save(tmp_path, number, size=1_000_000)
        while inode(tmp_path / LAST) == before_fork:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.04))
        os.kill(child, signal.SIGKILL)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        torn += bool(temporaries(tmp_path))
        assert load(tmp_path) >= first
    assert torn > 0, "no kill interrupted a save"
    clean_up(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {LAST, PREVIOUS, MANIFEST}
    elsewhere.rmdir()  # is empty


# ------------------------------------------------------------------ disks


def throw(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_error_at_any_call_leaves_the_old_or_the_new(
    two: Path, at_call: Callable[..., None], number: int
) -> None:
    for call in range(1, 12):
        at_call(call, lambda: throw(OSError(number, os.strerror(number))))
        with pytest.raises(
            UserError, match=rf"^{two}/{LAST}: cannot be saved \(.*{os.strerror(number)}"
        ) as raised:
            save(two, 3)
        assert "\n" not in str(raised.value)
        assert temporaries(two) == []
        assert load(two) in (2, 3)
    save(two, 4)
    assert (load(two), load(two, PREVIOUS)) == (4, 3)


@pytest.mark.parametrize(
    "error", [RuntimeError("unexpected pos 64 vs 0"), OSError(errno.ENOSPC, "No space left")]
)
def test_interrupted_write_leaves_the_old(
    two: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def half(content: object, file: BinaryIO) -> None:
        file.write(b"PK\x03\x04")
        raise error

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(UserError, match="cannot be saved"):
        save(two, 3)
    assert {path.name for path in two.iterdir()} == {LAST, PREVIOUS, MANIFEST}
    assert (load(two), load(two, PREVIOUS)) == (2, 1)


@pytest.mark.parametrize("name", [LAST, BEST])
@pytest.mark.parametrize("present", [LAST, PREVIOUS, BEST, None])
def test_full_disk_names_its_cause_and_what_is_intact(
    tmp_path: Path, name: str, present: str | None
) -> None:
    """The file is larger than the largest that the process may write, as on a full disk."""
    if present:
        save(tmp_path, 1, present)
    size, soft = 10_000, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, soft[1]))
    try:
        with pytest.raises(
            UserError, match=rf"{name}: cannot be saved \({os.strerror(errno.EFBIG)}\)"
        ) as raised:
            save(tmp_path, 2, name, size=size)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, soft)
    assert ("intact" in str(raised.value)) == (
        present == name or (present, name) == (PREVIOUS, LAST)
    )


def test_files_are_synced_before_they_are_renamed(
    two: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is synced afterwards."""
    calls: list[tuple[str, str]] = []
    fsync, replace = os.fsync, os.replace

    def synced(handle: int) -> None:
        calls.append(("sync", os.readlink(f"/proc/self/fd/{handle}")))
        fsync(handle)

    def replaced(source: Path, target: Path) -> None:
        calls.append(("name", f"{source} {target}"))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    save(two, 3)
    names = [(place, *what.split()) for place, (kind, what) in enumerate(calls) if kind == "name"]
    assert [Path(target).name for _, _, target in names] == [MANIFEST, PREVIOUS, LAST, MANIFEST]
    for place, source, target in names:
        assert ("sync", str(two)) in calls[place:]
        assert Path(target).name == PREVIOUS or ("sync", source) in calls[:place]


# ------------------------------------------------------------------ damage


def flipped(content: bytes, chance: random.Random) -> bytes:
    place = chance.randrange(len(content))
    return (
        content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]
    )


def truncated(content: bytes, chance: random.Random) -> bytes:
    return content[: chance.randrange(len(content))]


@pytest.mark.parametrize(("damage", "times"), [(flipped, 100), (truncated, 30)])
def test_damaged_file_is_rejected(
    two: Path,
    damage: Callable[[bytes, random.Random], bytes],
    times: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """In place of a damaged last.ckpt the previous one is read, with a warning."""
    save(two, 7, BEST)
    contents, chance = (
        {name: (two / name).read_bytes() for name in (BEST, LAST, PREVIOUS)},
        random.Random(0),
    )
    for _ in range(times):
        (two / BEST).write_bytes(damage(contents[BEST], chance))
        with pytest.raises(UserError, match=rf"^{two}/{BEST}: damaged"):
            load(two, BEST)
    for _ in range(10):
        (two / LAST).write_bytes(damage(contents[LAST], chance))
        caplog.clear()
        with caplog.at_level(logging.WARNING, "dialog"):
            assert load(two) == 1
        (line,) = caplog.messages
        assert line.startswith(f"WARNING: {two}/{LAST}: damaged")
        assert PREVIOUS in line
    (two / PREVIOUS).write_bytes(damage(contents[PREVIOUS], chance))
    with pytest.raises(UserError, match=rf"^{two}/{LAST}: damaged.*cannot be resumed"):
        load(two)
    (two / LAST).write_bytes(contents[LAST])
    assert load(two) == 2


def test_damaged_file_stays_damaged_after_clean_up(
    two: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = (two / LAST).read_bytes()
    (two / LAST).write_bytes(content[: len(content) // 2])
    clean_up(two)
    assert set(json.loads((two / MANIFEST).read_text(encoding="utf-8"))) == {PREVIOUS}
    with caplog.at_level(logging.WARNING, "dialog"):
        assert load(two) == 1
    assert caplog.messages


def test_damaged_manifest(two: Path) -> None:
    """A wrong hash counts as a damaged checkpoint; an unreadable manifest is replaced by the files'
    own checksums.
    """
    text = (two / MANIFEST).read_text(encoding="utf-8")
    hashes = json.loads(text)
    (two / MANIFEST).write_text(json.dumps({**hashes, LAST: hashes[LAST][::-1]}), encoding="utf-8")
    assert load(two) == 1
    (two / MANIFEST).write_text(text[:20], encoding="utf-8")
    assert load(two) == 2
    content = (two / LAST).read_bytes()
    place = content.index(b"\x00\x00\x00\x40" * 8)  # within the tensor
    (two / LAST).write_bytes(content[:place] + b"\x01" + content[place + 1 :])
    assert load(two) == 1, "its own checksum does not match"
    (two / LAST).write_bytes(content)
    clean_up(two)
    assert json.loads((two / MANIFEST).read_text(encoding="utf-8")) == hashes


def test_newer_format_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_io, "FORMAT", FORMAT + 1)
        patch.setattr(checkpoint_io, "__version__", "7.0.0")
        save(tmp_path, 1)
    with pytest.raises(
        UserError,
        match=rf"last\.ckpt: has format 2, written by dialog 7\.0\.0.*{__version__}.*up to 1",
    ):
        load(tmp_path)


def test_only_plain_types_and_tensors_are_loaded(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Any, tuple[Path]]:
            return Path.touch, (tmp_path / "touched",)

    SafeCheckpointIO().save_checkpoint({"state": Evil()}, tmp_path / LAST)
    with pytest.raises(UserError, match=rf"^{tmp_path}/{LAST}: cannot be loaded") as raised:
        SafeCheckpointIO().load_checkpoint(tmp_path / LAST, weights_only=False)
    assert "weights_only" not in str(raised.value)
    assert not (tmp_path / "touched").exists()
