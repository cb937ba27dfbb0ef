"""A folder of the user's own, and the memory of a process that prepares next to nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from corpus_program import FORMATS, run_process

if sys.version_info >= (3, 14):
    pass
else:
    pass


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder with a cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIALOG_CACHE", "cache")
    for name in ("DIALOG_DATA", "DIALOG_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "cache").mkdir()
    return tmp_path


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Peak memory of a process that prepares one dialogue."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("baseline"))
        patch.setenv("DIALOG_CACHE", "cache")
        FORMATS["jsonl"].write()
        ended = run_process("data.corpus={name: jsonl}")
    assert ended.done.code == 0, ended.done.err
    return ended.peak
