"""Metrics are bit-identical for any number of processes: real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torch

from dialog.metrics.scores.family import STANDARD


def test_four_processes_measure_what_one_does(tmp_path: Path) -> None:
    script = Path(__file__).with_name("worlds.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, str(script), str(tmp_path)], check=True, timeout=300, env=environment
    )
    whole, *split = (
        torch.load(tmp_path / f"{world}-{rank}.pt")
        for world, rank in ((1, 0), (4, 0), (4, 1), (4, 2), (4, 3))
    )
    assert len(whole) == len(STANDARD)
    assert all(values == whole for values in split)
