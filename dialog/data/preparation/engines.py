"""Engines that run the shards of a preparation: local processes, or a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import redirect_stdout
from multiprocessing.connection import wait as wait_for
from pathlib import Path

from dialog.data.preparation.job import Job, Progress
from dialog.data.preparation.shards import report_progress, write_shard
from dialog.errors import UserError, install

Engine = Callable[[Job, Path, int, Progress], None]
"""Calls `write_shard(job, shards, index, count)` for every index below the count, on any machine,
in any order.
"""
INTERVAL = 1.0
"""Seconds between progress reports."""
RETRIES = 5
"""Retries of a Ray task whose worker dies."""


def on_processes(job: Job, shards: Path, count: int, progress: Progress) -> None:
    """Write each shard in its own process; a single shard in this process.

    Raises:
        UserError: as `write_shard`, or a process was killed.
    """
    if count == 1:
        write_shard(job, shards, 0, 1, progress)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of threads
    with ProcessPoolExecutor(count, mp_context=context, initializer=_start_worker) as pool:
        running = {pool.submit(write_shard, job, shards, index, count) for index in range(count)}
        try:
            while running:
                report_progress(shards, count, progress)
                done, running = wait(running, timeout=INTERVAL, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
        except BrokenProcessPool as error:
            raise UserError(
                "a process of the preparation was killed, possibly out of memory; lower --workers"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)
    report_progress(shards, count, progress)


def _start_worker() -> None:
    """Tokenise on one core, since the processes share them, and exit when the parent does."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def on_ray(job: Job, shards: Path, count: int, progress: Progress) -> None:
    """Write each shard as a task of the Ray cluster at `$RAY_ADDRESS`, or of a new local one.

    Ray retries a task whose worker dies. All machines must see the corpus and the cache under the
    same path.

    Raises:
        UserError: Ray is not installed, its cluster cannot be reached or loses a task repeatedly,
            or as `write_shard`.
    """
    try:
        import ray  # noqa: F401 - checks that it is installed
    except ImportError as error:
        raise UserError(f"--engine ray needs Ray; run {install('ray')}") from error
    with redirect_stdout(sys.stderr):  # Ray prints about dead workers
        _on_ray(job, shards, count, progress)


def _on_ray(job: Job, shards: Path, count: int, progress: Progress) -> None:
    import ray

    try:
        ray.init(log_to_driver=False, configure_logging=False, ignore_reinit_error=True)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(f"the Ray cluster cannot be reached: {error}") from error
    try:
        task = ray.remote(write_shard).options(max_retries=RETRIES)
        running = [task.remote(job, shards, index, count) for index in range(count)]
        while running:
            report_progress(shards, count, progress)
            done, running = ray.wait(running, timeout=INTERVAL)
            ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"Ray lost a task ({reason}), possibly out of memory; lower --workers"
        ) from error
    finally:
        ray.shutdown()
    report_progress(shards, count, progress)


ENGINES: dict[str, Engine] = {"processes": on_processes, "ray": on_ray}
