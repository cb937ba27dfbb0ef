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
from dialog.comparison.grid.progress import Display, RunState, remaining_seconds, state_of
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
    """Two seeds of a contender, of which the first has been trained for a quarter of its steps, 1 s
    each.
    """
    contender = replace(of_recipe(tiny("lstm", "trainer.max_steps=40")), name="mine/lstm[lr={1}]")
    work = Work(Grid(tmp_path, (contender,), (1, 2)), advice="")
    record = work.cells[0].folder / "metrics.jsonl"
    record.parent.mkdir(parents=True)
    # after long preparation
    rows = [{"step": step, "epoch": 0, "time": 5000.0 + step} for step in (5, 10)]
    record.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return work


@pytest.mark.parametrize("terminal", [True, False])
def test_runs_and_remaining_time_are_shown(
    work: Work, terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(terminal=terminal)
    monkeypatch.setattr(sys, "stderr", screen)
    with Display(work).running():
        pass
    # 30 s of the first, 40 s of the second
    text = "at most 1 min 10 s left, lstm[lr={1}] seed 1: step 10 of 40"
    line = screen.getvalue().strip().splitlines()[-1].rpartition("\r")[2]
    assert line == (
        f"runs: 0 of 2 |##5                 | {text}" if terminal else f"runs: 0 of 2, {text}"
    )


def test_last_line_may_be_long(work: Work) -> None:
    """That of a validation has the statistics of all attention heads."""
    record = work.cells[0].folder / "metrics.jsonl"
    line = {
        "step": 20,
        "epoch": 0,
        "time": 5020.0,
        **{f"attention/entropy/{head}": 0.5 for head in range(1000)},
    }
    with record.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    state = state_of(work.cells[0])
    assert state.text == "lstm[lr={1}] seed 1: step 20 of 40"
    assert state.left == 20


def test_epochs_give_the_end_of_a_run_without_a_limit_of_steps(
    tiny: Callable[..., Any], tmp_path: Path
) -> None:
    contender = of_recipe(tiny("lstm", "trainer.max_steps=-1", "trainer.max_epochs=4"))
    (cell,) = Grid(tmp_path, (contender,), (1,)).cells()
    cell.folder.mkdir(parents=True)
    rows = [
        (5, 0, 300),
        (10, 0, 305),
        (11, 1, 306),
        (15, 1, 310),
        (16, 1, 900),
        (17, 1, 901),
        (20, 1, 904),
    ]
    lines = (
        json.dumps({"step": step, "epoch": epoch, "time": seconds}) for step, epoch, seconds in rows
    )
    (cell.folder / "metrics.jsonl").write_text(
        "".join(f"{line}\n" for line in lines), encoding="utf-8"
    )
    state = state_of(cell)
    assert state.fraction == 0.5  # 10 steps an epoch, also in the middle of one
    assert state.left == 20  # 1 s a step, although a resume has taken 590 s


def test_remaining_time_is_that_of_the_slowest_hardware() -> None:
    """A run that ended on a faster machine does not shorten the bound of those that are left."""
    moved = RunState("lstm", 0.25, 100.0, active=True, left=300.0)
    states = [
        RunState("lstm", 1.0, 40.0, active=False),
        moved,
        RunState("lstm", 0.0, None, active=False),
    ]
    assert remaining_seconds(states) == 300 + 400
    unknown = RunState("transformer", 0.0, None, active=False)
    assert remaining_seconds([*states, unknown]) == 300 + 400 + 400
