"""benchmarks/gpu.sh and its probes on a CPU, at toy sizes: the code that a GPU will run."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import dialog

BENCHMARKS = Path(dialog.__file__).parents[1] / "benchmarks"
SLOW = {"trainer", "compiled", "sharded"}  # processes, compilers, process groups


@pytest.fixture(scope="module")
def probes() -> ModuleType:
    specification = importlib.util.spec_from_file_location(
        "gpu_probes", BENCHMARKS / "gpu_probes.py"
    )
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # vmap of attention on a CPU
def test_probes_give_figures(probes: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    for name, probe in probes.PROBES.items():  # one process: loading torch takes most of it
        if name not in SLOW:
            probe(probes.PAIR)
            assert capsys.readouterr().out.startswith("RESULT "), name


def script(folder: Path, **settings: str) -> tuple[int, list[str]]:
    """Run the script; return its exit code and lines, which are kept in the folder too."""
    done = subprocess.run(
        [BENCHMARKS / "gpu.sh", folder],
        env={**os.environ, "PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": "", **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (folder / "results.txt").read_text(encoding="utf-8") == done.stdout
    return done.returncode, [line for line in done.stdout.splitlines() if "CHECK" in line]


def test_script_runs_a_part_of_the_list_and_counts_a_failure(tmp_path: Path) -> None:
    code, lines = script(tmp_path / "one", FROM="18", TO="18")
    assert code == 0
    assert [line.split()[1:4] for line in lines] == [["18", "checkpoint", "PASS"]]
    code, lines = script(tmp_path / "two", FROM="22", TO="22")  # without the runs before
    assert code == 1
    assert lines[0].split()[1:4] == ["22", "equal_metrics", "FAIL"]


@pytest.mark.endurance
def test_checks_of_whole_trainings(tmp_path: Path) -> None:
    code, lines = script(tmp_path / "all", FROM="19", TO="22")
    assert code == 0, lines
    assert len(lines) == 4
