"""A user's folder, and the program in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from program import Done

from dialog.cli import main


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with an empty cache, a folder of the user's, and two recipes with errors."""
    cache = tmp_path / "cache"
    cache.mkdir()
    monkeypatch.setenv("DIALOG_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "note.txt").write_text("mine")
    (tmp_path / "bad.yaml").write_text("defaults: {data: builtin}\nmodel: {encoder: [}\n")
    (tmp_path / "same.yaml").write_text(
        "defaults: {data: builtin, model: transformer, optimizer: adamw_inverse_sqrt}\n"
        "model: {encoder: {name: transfomer}, dropout: 0.0}\n"
    )
    return tmp_path


@pytest.fixture
def call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Call the program in this process."""

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["dialog", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsys.readouterr()
        return Done(int(ended.value.code or 0), out, err)

    return run
