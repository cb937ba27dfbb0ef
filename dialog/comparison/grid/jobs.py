"""Share the runs of a comparison between processes on this machine, and stop all of them on a
signal.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dialog.errors import UserError

log = logging.getLogger("dialog")


def run_jobs(folder: Path, jobs: int, options: Sequence[str] = ()) -> None:
    """Run ``compare FOLDER --job`` in several processes; wait until all have ended, or stop them on
    a signal.

    Their locks divide the runs, so a process that is killed leaves its run to the others. Messages
    go to ``jobs/<n>.log``.
    """
    logs = folder / "jobs"
    logs.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "dialog", "compare", str(folder), "--job", *options]
    started: list[subprocess.Popen[bytes]] = []
    try:
        for number in range(1, jobs + 1):
            with (logs / f"{number}.log").open("wb") as output:
                started.append(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.PIPE,  # closed when this process ends, however it ends
                        stdout=subprocess.DEVNULL,
                        stderr=output,
                        env=environment_of(number - 1, jobs, visible_devices()),
                        # a signal of the terminal reaches them through this process, once
                        start_new_session=True,
                    )
                )
        for job in started:
            job.wait()
    finally:
        stop(started)
    for number, job in enumerate(started, start=1):
        if job.returncode < 0:
            name = signal.Signals(-job.returncode).name
            log.warning(
                "job %d was ended by %s; its run continues here (%s)",
                number,
                name,
                logs / f"{number}.log",
            )


def stop(jobs: Sequence[subprocess.Popen[bytes]]) -> None:
    """Let processes save and end; a second signal kills them."""
    running = [job for job in jobs if job.poll() is None]
    try:
        for job in running:
            with suppress(ProcessLookupError):
                job.terminate()
        for job in running:
            job.wait()
    except BaseException:
        for job in running:
            job.kill()
        raise


def check_threads(number: str) -> None:
    """Check that OMP_NUM_THREADS is one number, which the processes share; OpenMP also knows
    lists.
    """
    if not number.isdecimal():
        raise UserError(f"OMP_NUM_THREADS is {number!r}; set it to one number for --jobs")


def environment_of(number: int, jobs: int, devices: Sequence[str]) -> Mapping[str, str]:
    """Return the environment of one of several processes: its share of the cores, and one GPU if
    there are any.
    """
    check_threads(os.environ.get("OMP_NUM_THREADS") or "1")
    cores = int(os.environ.get("OMP_NUM_THREADS") or len(os.sched_getaffinity(0)))
    variables = {**os.environ, "OMP_NUM_THREADS": str(max(1, cores // jobs))}
    return (
        {**variables, "CUDA_VISIBLE_DEVICES": devices[number % len(devices)]}
        if devices
        else variables
    )


def visible_devices() -> list[str]:
    """Return the numbers of the GPUs that this process may use."""
    import torch

    if listed := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return listed.split(",")
    return [str(index) for index in range(torch.cuda.device_count())]


def end_with_parent() -> None:
    """Stop this process when the process that started it ends: its standard input is then
    closed.
    """

    def watch() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()
