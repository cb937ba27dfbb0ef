"""The SLURM job scripts, run with stand-ins for srun, scontrol and python that record how they were
called.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from dialog.cli.compare import compare
from dialog.comparison.grid.contenders import read_contenders
from dialog.config.compose import split_overrides

SCRIPTS = Path(__file__).parents[2] / "docs" / "slurm"
SCRIPT = SCRIPTS / "train.sbatch"
ARRAY = SCRIPTS / "compare_array.sh"


def run_script(folder: Path, code: int) -> tuple[int, list[str]]:
    """The script's exit code and its calls, for a job whose tasks exit with ``code``."""
    for name, ending in (("srun", code), ("scontrol", 0)):
        command = folder / name
        command.write_text(
            f'#!/bin/bash\necho "{name} $*" >> {folder}/calls\nexit {ending}\n', encoding="utf-8"
        )
        command.chmod(0o755)
    slurm = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "4"}
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    arguments = ["bash", str(SCRIPT), "quickstart/transformer", "logger={name: none}"]
    finished = subprocess.run(
        arguments, cwd=folder, env={**os.environ, **slurm, "PATH": path}, check=False
    )
    return finished.returncode, (folder / "calls").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("code", [0, 1, 143])
def test_a_stopped_job_is_requeued(tmp_path: Path, code: int) -> None:
    run = "runs/slurm-7"
    train = (
        "quickstart/transformer logger={name: none} trainer.num_nodes=2 trainer.devices=4"
        f" --output {run}"
    )
    requeue = ["scontrol requeue 7"] if code == 143 else []
    assert run_script(tmp_path, code) == (
        code,
        [f"srun --kill-on-bad-exit=1 python -m dialog train {train}", *requeue],
    )


@pytest.mark.endurance
def test_a_requeued_job_resumes(tmp_path: Path) -> None:
    checkpoint = tmp_path / "runs" / "slurm-7" / "checkpoints" / "last.ckpt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    assert run_script(tmp_path, 0) == (
        0,
        ["srun --kill-on-bad-exit=1 python -m dialog train --resume runs/slurm-7"],
    )


# ------------------------------------------------------------------ job array


def array_task(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a task of the job array, whose python waits for SIGTERM if --wait is an argument."""
    commands = {
        "python": (
            'trap "exit 143" TERM\n[[ "$*" == *--wait* ]] && { touch started; sleep 30 & wait $!;'
            " }\nexit 0"
        ),
        "scontrol": "exit 0",
    }
    for name, body in commands.items():
        command = folder / name
        command.write_text(
            f'#!/bin/bash\necho "{name} $*" >> {folder}/calls\n{body}\n', encoding="utf-8"
        )
        command.chmod(0o755)
    variables = {"SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "2"}
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    return subprocess.Popen(
        ["bash", str(ARRAY), "out", *arguments],
        cwd=folder,
        env={**os.environ, **variables, "PATH": path},
    )


@pytest.mark.endurance
def test_a_task_of_an_array_continues_the_comparison(tmp_path: Path) -> None:
    assert array_task(tmp_path, "a.yaml", "b.yaml", "--seeds", "3").wait(30) == 0
    calls = (tmp_path / "calls").read_text(encoding="utf-8")
    assert calls == "python -m dialog compare a.yaml b.yaml --seeds 3 --output out\n"


@pytest.mark.endurance
def test_a_stopped_task_of_an_array_is_requeued(tmp_path: Path) -> None:
    task = array_task(tmp_path, "a.yaml", "--wait")
    while not (tmp_path / "started").exists():
        assert task.poll() is None
        time.sleep(0.01)
    task.terminate()
    assert task.wait(30) == 143
    assert (tmp_path / "calls").read_text(encoding="utf-8").splitlines()[
        -1
    ] == "scontrol requeue 7_2"


def test_the_command_of_the_array_is_valid() -> None:
    """Its example is a command line that ``compare`` accepts."""
    (example,) = (
        line for line in ARRAY.read_text(encoding="utf-8").splitlines() if "sbatch --array" in line
    )
    folder, *arguments = example.partition(ARRAY.name)[2].split()
    context = compare.make_context("compare", [*arguments, "--output", folder])
    names, _ = split_overrides(context.params["contenders"])
    assert [contender.kind for contender in read_contenders(names, [])] == ["recipe", "recipe"]
    assert context.params["seeds"] == 3
