"""Progress of a comparison, in a terminal and elsewhere."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dialog.comparison.grid.contenders import of_recipe
from dialog.comparison.grid.folder import Grid
from dialog.comparison.grid.progress import Display
from dialog.comparison.grid.work import Work


class Screen(io.StringIO):
    """Standard error of a terminal, or of none."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def work(tiny: Callable[..., Any], tmp_path: Path) -> Work:
    """Two seeds of a contender, of which the first has been trained for 10 s, a quarter of its steps."""
    contender = replace(of_recipe(tiny("lstm", "trainer.max_steps=40")), name="mine/lstm[lr={1}]")
    work = Work(Grid(tmp_path, (contender,), (1, 2)), advice="")
    record = work.cells[0].folder / "metrics.jsonl"
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"step": 10, "epoch": 0, "time": 10.0}) + "\n", encoding="utf-8")
    return work


@pytest.mark.parametrize("terminal", [True, False])
def test_runs_and_remaining_time_are_shown(work: Work, terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(terminal=terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    with Display(work).running():
        pass
    text = "about 01:10 left, lstm[lr={1}] seed 1: step 10 of 40"  # 30 s of the first, 40 s of the second
    line = screen.getvalue().strip().splitlines()[-1].rpartition("\r")[2]
    assert line == (f"0 of 2 runs |##5                 | {text}" if terminal else f"0 of 2 runs, {text}")
