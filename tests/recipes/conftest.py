"""The script of the queue, called in this process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from queue_texts import QUEUE, SCRIPT, Call


@pytest.fixture
def queue(tmp_path: Path) -> list[str]:
    (tmp_path / "queue.yaml").write_text(QUEUE)
    options = {"queue": "queue.yaml", "output": "out", "recipes": "recipes", "records": "records"}
    return [
        text for name, value in options.items() for text in (f"--{name}", str(tmp_path / value))
    ]


@pytest.fixture
def call(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    queue: list[str],
) -> Call:
    """Run the script in this process; return exit code and standard output."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)

    def run(*options: str) -> tuple[int, str]:
        import run

        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", [str(SCRIPT), *queue, *options])
        try:
            run.main()
        except SystemExit as end:
            return int(end.code or 0), "".join(capfd.readouterr())
        return 0, capfd.readouterr().out

    return run
