"""Manifests hold at any moment: for a reader, after a kill, and after damage."""

from __future__ import annotations

import json
import os
import signal
import time
from itertools import count
from pathlib import Path

import pytest

from dialog.errors import UserError
from dialog.training.checkpoints.manifest import (
    MANIFEST,
    check_intact,
    is_intact,
    list_files,
    remove_temporaries,
    replacing_listed,
)


def replace(path: Path, content: str) -> None:
    with replacing_listed(path) as new:
        new.write_text(content)


def test_file_is_intact_while_it_is_replaced(tmp_path: Path) -> None:
    """Another process replaces it without pause, and is killed."""
    path = tmp_path / "file"
    replace(path, "0")
    child = os.fork()
    if not child:
        for number in count(1):
            replace(path, str(number))
    end = time.monotonic() + 1
    states = {is_intact(path)}
    while time.monotonic() < end:
        states.add(is_intact(path))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert states == {True}
    assert int(path.read_text()) > 10
    assert is_intact(path)
    remove_temporaries(tmp_path, ["file"])
    replace(path, "last")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", MANIFEST]
    assert list(json.loads((tmp_path / MANIFEST).read_text())) == ["file"]


def test_changed_file_is_not_intact(tmp_path: Path) -> None:
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_text("one")
    assert is_intact(path) is None
    check_intact(path)
    replace(other, "two")
    assert is_intact(path) is False, "it is not listed"
    list_files(tmp_path, ["file", "other", "missing"])
    assert is_intact(path)
    path.write_text("two")
    assert is_intact(path) is False, "the hash is listed for another file"
    with pytest.raises(UserError, match=r"file: has changed, .*; restore it from a copy"):
        check_intact(path)


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", "\xff"])
def test_damaged_manifest_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / "file").write_text("one")
    (tmp_path / MANIFEST).write_text(content, encoding="latin-1")
    with pytest.raises(UserError, match=r"manifest\.json: damaged; delete it"):
        is_intact(tmp_path / "file")
    replace(tmp_path / "file", "two")
    assert is_intact(tmp_path / "file")
