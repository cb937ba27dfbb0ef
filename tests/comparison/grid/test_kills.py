"""Comparisons in real processes: killed, stopped by signals, shared by several processes."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest
from processes import Server

sys.path.insert(0, str(Path(__file__).parent))
from killed import command, compare, compare_with_kills, progress, results, without_times

pytestmark = pytest.mark.endurance


@pytest.fixture(scope="module")
def whole(server: Server) -> tuple[Path, int]:
    """An uninterrupted comparison of 2 x 2 runs, and its progress."""
    folder = server.folder / "whole"
    return folder, compare(server, folder, 2)


def test_killed_comparison_is_the_uninterrupted_one(
    server: Server, whole: tuple[Path, int]
) -> None:
    folder = server.folder / "grid-killed"
    assert compare_with_kills(server, folder, 2, kills=3, whole=whole[1], seed=3) >= 2
    assert without_times(results(folder)) == without_times(results(whole[0]))


def test_finished_comparison_is_not_computed_again(server: Server, whole: tuple[Path, int]) -> None:
    folder, _ = whole
    before = {
        path: path.stat().st_mtime_ns
        for path in (folder / "runs").rglob("*.*")
        if path.suffix != ".lock"
    }
    content = results(folder)
    again = server.start("compare", str(folder))
    assert again.wait() == [0], again.output
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert without_times(results(folder)) == without_times(content)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_comparison_names_the_command_that_continues(
    server: Server, number: int, code: int
) -> None:
    folder = server.folder / f"grid-stopped-{code}"
    process = server.start(*command(folder))
    process.until(lambda: progress(folder) > 3)
    process.send(number)
    assert process.wait() == [code]
    (message,) = [line for line in process.output.splitlines() if "continue with" in line]
    assert message.endswith(f"continue with: python -m dialog compare {folder}")
    assert "train --resume" not in process.output
    assert [*folder.glob("runs/**/checkpoints/last.ckpt")]
    assert not (folder / "results.json").exists()


def test_processes_share_the_runs(server: Server, whole: tuple[Path, int]) -> None:
    """One is killed; the others do its work, and one writes the report."""
    folder = server.folder / "grid-shared"
    killed, *others = [server.start(*command(folder)) for _ in range(3)]
    killed.until(lambda: len([*folder.glob("runs/**/metrics.jsonl")]) >= 3)
    killed.send(signal.SIGKILL)
    assert killed.wait() == [-signal.SIGKILL]
    assert [process.wait() for process in others] == [[0], [0]], "".join(
        process.output for process in others
    )
    assert without_times(results(folder)) == without_times(results(whole[0]))
    waited = [process for process in others if "on which other processes work" in process.output]
    assert len(waited) <= 2
    assert all(f"report: {folder}/report.html" in process.output for process in others)


def test_jobs_divide_the_runs_and_end_with_their_parent(
    server: Server, whole: tuple[Path, int]
) -> None:
    folder = server.folder / "jobs"
    process = server.start(*command(folder, 2, "--jobs", "2"))
    process.until(lambda: progress(folder) > 3)
    process.send(signal.SIGKILL)
    assert process.wait() == [-signal.SIGKILL]
    logs = [folder / "jobs" / f"{number}.log" for number in (1, 2)]
    while not any(
        "stopped by SIGTERM; continue with" in log.read_text(encoding="utf-8") for log in logs
    ):
        assert not (folder / "results.json").exists()
        time.sleep(0.02)
    continued = server.start("compare", str(folder), "--jobs", "2")
    assert continued.wait() == [0], continued.output
    assert without_times(results(folder)) == without_times(results(whole[0]))
