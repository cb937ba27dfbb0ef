"""Kill a comparison at random moments, continue it, and compare its results with those of an
uninterrupted one.

    python tests/comparison/grid/killed.py FOLDER [--kills 10] [--seeds 3] [--signal KILL] [--jobs
    1]

With several jobs, the signal goes to the first process, and every other time to its jobs also.
Exits with 1 if results.json differs in anything but times. The module is also used by tests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from processes import Processes, Server, children, has_ended, serving

from dialog.runs.evaluation.evaluated import COST

RECIPES = ["quickstart/lstm_bahdanau", "quickstart/transformer"]
SETTINGS = [
    "data.corpus.size=60", "data.tokenizer.vocabulary=400", "data.batch_tokens=700", "model.embedding_size=24",
    "model.dropout=0.3", "trainer.max_steps=12", "trainer.val_check_interval=8", "trainer.accumulate_grad_batches=2",
    "trainer.check_val_every_n_epoch=null", "trainer.log_every_n_steps=1", "trainer.accelerator=cpu",
    "checkpoint.every_n_steps=5", "checkpoint.patience=null", "generation.max_length=6", "preflight=false",
]  # fmt: skip
"""Small trainings with dropout and accumulation, and with checkpoints between which the kills fall.
"""
TIMES = (
    "date",
    "seconds",
    "time",
    "tokens_per_second",
    "seconds_to",
    "milliseconds_per_response",
    "peak_memory_bytes",
    COST,
)
"""Fields of results.json that are measured by the clock, wherever they occur; the last has the hash
of such fields.
"""
TIMED_ROWS = {"what": "training seconds", "axis": "seconds"}
"""Entries of lists that are measured by the clock: a row of "parity", and crossings of the curves
over seconds.
"""


def command(folder: Path, seeds: int = 2, *options: str) -> list[str]:
    """Return the arguments of a comparison of two tiny models."""
    return [
        "compare",
        *RECIPES,
        *SETTINGS,
        "--seeds",
        str(seeds),
        "--output",
        str(folder),
        *options,
    ]


def results(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return content


def without_times(content: Any) -> Any:
    """Return results.json without what the clock has measured: equal for two runs of the same
    comparison.
    """
    if isinstance(content, dict):
        return {key: without_times(value) for key, value in content.items() if key not in TIMES}
    if isinstance(content, list):
        return [without_times(value) for value in content if not is_timed(value)]
    return content


def is_timed(entry: object) -> bool:
    """Return whether an entry of a list is one of `TIMED_ROWS`."""
    return isinstance(entry, dict) and any(
        entry.get(key) == value for key, value in TIMED_ROWS.items()
    )


def progress(folder: Path) -> int:
    """Return the number of logged lines of all runs, and ten for each file of an evaluation."""
    done = 0
    # unlike `glob`, os.walk passes over folders that are renamed or removed meanwhile
    for parent, _, files in os.walk(folder / "runs"):
        if "metrics.jsonl" in files:
            with suppress(FileNotFoundError):
                done += Path(parent, "metrics.jsonl").read_bytes().count(b"\n")
        if Path(parent).parent.name == "evaluation":
            done += 10 * len(files)
    return done


def compare(server: Server, folder: Path, seeds: int, *options: str) -> int:
    """Compare without interruption; return the progress at the end."""
    complete(server.start(*command(folder, seeds, *options)))
    return progress(folder)


def compare_with_kills(
    server: Server,
    folder: Path,
    seeds: int,
    *options: str,
    kills: int,
    whole: int,
    seed: int,
    number: int = signal.SIGKILL,
) -> int:
    """Compare, killed and continued at random moments; return the number of kills that hit.

    A kill comes after a random part of what is left of the progress of the `whole` comparison.
    """
    chance = random.Random(seed)
    hits = 0
    for left in range(kills, 0, -1):
        aim = progress(folder) + chance.uniform(0, 1.5) * (whole - progress(folder)) / (left + 1)
        process = server.start(*command(folder, seeds, *options))
        while progress(folder) < aim and not has_ended(process.pids[0]):
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.2))
        jobs = children(process.pids[0]) if left % 2 else []
        process.send(number)
        for job in jobs:
            with suppress(ProcessLookupError):
                os.kill(job, number)
        hits += process.wait() in ([-number], [128 + number])
    complete(server.start(*command(folder, seeds, *options)))
    return hits


def complete(process: Processes) -> None:
    assert process.wait() == [0], process.output


def main() -> int:
    """Print what was done; return 1 if the results differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--signal", default="KILL", choices=["KILL", "TERM", "INT"])
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    number = signal.Signals[f"SIG{options.signal}"]
    root = options.folder.resolve()
    root.mkdir(parents=True, exist_ok=True)
    with serving(root) as server:
        whole = compare(server, root / "whole", options.seeds)
        plan = {"kills": options.kills, "whole": whole, "seed": options.seed, "number": number}
        hits = compare_with_kills(
            server, root / "killed", options.seeds, "--jobs", str(options.jobs), **plan
        )
    same = without_times(results(root / "killed")) == without_times(results(root / "whole"))
    outcome = "same" if same else "OTHER"
    print(
        f"2 x {options.seeds} runs, {options.jobs} at a time; {number.name} hit {hits} times;"
        f" {outcome}"
    )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
