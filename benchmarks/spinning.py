"""Training speed by how long OpenMP's idle threads spin, on an idle machine and beside one busy process.

    cd benchmarks && python spinning.py [--settings default,GOMP_SPINCOUNT=10000,...] [--rounds 2]

GNU's OpenMP (libgomp) lets threads that wait spin for a while before they sleep. While another process holds a core,
the spinning threads hold the core that the last thread needs. Each cell is the best of the rounds, in real target
tokens per second of the S-LSTM and the S-Transformer of steps.py; each round is a process of its own, and the settings
take turns.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

from steps import Case, Timing

STEPS = Path(__file__).with_name("steps.py")
ROWS, SOURCE, TARGET = 64, 32, 16
SETTINGS = (
    "default,GOMP_SPINCOUNT=100000,GOMP_SPINCOUNT=10000,GOMP_SPINCOUNT=1000,GOMP_SPINCOUNT=100,OMP_WAIT_POLICY=PASSIVE"
)
CLEARED = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def speed(family: str, setting: str, threads: int) -> float:
    """Return target tokens per second of one process."""
    environment = {key: value for key, value in os.environ.items() if key not in CLEARED}
    if setting != "default":
        name, value = setting.split("=")
        environment[name] = value
    case = Case(family, SOURCE, TARGET, ROWS, "32-true", "default")
    command = [sys.executable, str(STEPS), "--device", "cpu", "--threads", str(threads), "--one", json.dumps(case)]
    done = subprocess.run([*command, "--steps", "8"], stdout=subprocess.PIPE, text=True, check=True, env=environment)
    timing = Timing(*json.loads(done.stdout))
    return timing.tokens * TARGET / (SOURCE + TARGET) / statistics.median(timing.wall)


def main() -> None:
    """Print one row per family and setting."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", default=SETTINGS)
    parser.add_argument("--families", default="lstm,transformer")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    settings = [*((setting, os.cpu_count() or 1) for setting in options.settings.split(",")), ("default", 1)]
    for family in options.families.split(","):
        print(
            "| family | setting | threads | idle machine | beside a busy process |\n| --- | --- | ---: | ---: | ---: |"
        )
        idle = [[speed(family, *setting) for setting in settings] for _ in range(options.rounds)]
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
            try:
                beside = [[speed(family, *setting) for setting in settings] for _ in range(options.rounds)]
            finally:
                busy.kill()
        for at, (setting, threads) in enumerate(settings):
            cells = [max(round[at] for round in rounds) for rounds in (idle, beside)]
            print(f"| {family} | {setting} | {threads} | {cells[0]:,.0f} | {cells[1]:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
