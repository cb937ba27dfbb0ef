"""How long waiting threads of OpenMP spin, as the library itself prints it when torch loads it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from dialog.cli import SPIN_COUNT


@pytest.mark.parametrize(
    ("setting", "count"),
    [
        ({}, SPIN_COUNT),
        pytest.param({"GOMP_SPINCOUNT": "7"}, "7", marks=pytest.mark.endurance),
        pytest.param({"OMP_WAIT_POLICY": "PASSIVE"}, "0", marks=pytest.mark.endurance),
    ],
)
def test_waiting_threads_sleep_early(setting: dict[str, str], count: str) -> None:
    kept = {
        key: value
        for key, value in os.environ.items()
        if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    environment = {**kept, "OMP_DISPLAY_ENV": "verbose", **setting}
    command = [sys.executable, "-W", "ignore", "-m", "dialog", "parts", "attentions"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    if "GOMP_SPINCOUNT" not in done.stderr:
        pytest.skip("torch uses another OpenMP than GNU's")
    assert re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr)[-1] == count
