"""The SLURM job script, run with stand-ins for srun and scontrol that record how they were called."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "docs" / "slurm" / "train.sbatch"


def run_script(folder: Path, code: int) -> tuple[int, list[str]]:
    """The script's exit code and its calls, for a job whose tasks exit with ``code``."""
    for name, ending in (("srun", code), ("scontrol", 0)):
        command = folder / name
        command.write_text(f'#!/bin/bash\necho "{name} $*" >> {folder}/calls\nexit {ending}\n', encoding="utf-8")
        command.chmod(0o755)
    slurm = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_NTASKS_PER_NODE": "4"}
    path = os.pathsep.join([str(folder), os.environ["PATH"]])
    arguments = ["bash", str(SCRIPT), "quickstart/transformer", "logger={name: none}"]
    finished = subprocess.run(arguments, cwd=folder, env={**os.environ, **slurm, "PATH": path}, check=False)
    return finished.returncode, (folder / "calls").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("code", [0, 1, 143])
def test_a_stopped_job_is_requeued(tmp_path: Path, code: int) -> None:
    run = "runs/slurm-7"
    train = f"quickstart/transformer logger={{name: none}} trainer.num_nodes=2 trainer.devices=4 --output {run}"
    requeue = ["scontrol requeue 7"] if code == 143 else []
    assert run_script(tmp_path, code) == (code, [f"srun --kill-on-bad-exit=1 python -m dialog train {train}", *requeue])


def test_a_requeued_job_resumes(tmp_path: Path) -> None:
    checkpoint = tmp_path / "runs" / "slurm-7" / "checkpoints" / "last.ckpt"
    checkpoint.parent.mkdir(parents=True)
    checkpoint.touch()
    assert run_script(tmp_path, 0) == (0, ["srun --kill-on-bad-exit=1 python -m dialog train --resume runs/slurm-7"])
