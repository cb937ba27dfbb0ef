"""What runs the shards of a preparation: processes here, or a Ray cluster."""

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

from dialog.data.preparation.shards import Job, Progress, tell_read, write_shard
from dialog.errors import UserError

Engine = Callable[[Job, Path, int, Progress], None]
"""Makes `write_shard(job, parts, index, count)` happen for every index below the count, anywhere and in any order."""
TICK = 1.0
"""Seconds between two looks at how far the shards are."""


def on_processes(job: Job, parts: Path, count: int, progress: Progress) -> None:
    """Each shard in a process of its own; a single one in this.

    Raises:
        UserError: as `write_shard`, or when a process was killed.
    """
    if count == 1:
        write_shard(job, parts, 0, 1, progress)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
    with ProcessPoolExecutor(count, mp_context=context, initializer=_alone) as pool:
        running = {pool.submit(write_shard, job, parts, index, count) for index in range(count)}
        try:
            while running:
                tell_read(parts, count, progress)
                done, running = wait(running, timeout=TICK, return_when=FIRST_COMPLETED)
                for each in done:
                    each.result()
        except BrokenProcessPool as error:
            raise UserError(
                "a process of the preparation was killed; is there memory for so many --workers?"
            ) from error
        finally:
            pool.shutdown(cancel_futures=True)
    tell_read(parts, count, progress)


def _alone() -> None:
    """The processes share the cores, so each tokenises on one; and none outlives the one that started it."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def on_ray(job: Job, parts: Path, count: int, progress: Progress) -> None:
    """Each shard as a task of the Ray cluster at `$RAY_ADDRESS`, or of one that is started here.

    A task whose worker dies is run again elsewhere. All machines must see the corpus and the cache under the same path.

    Raises:
        UserError: Ray is not installed, its cluster cannot be reached, loses a task again and again, or as
            `write_shard`.
    """
    try:
        import ray  # noqa: F401 - whether it is there
    except ImportError as error:
        raise UserError("--engine ray needs Ray; install dialog-seq2seq[ray]") from error
    with redirect_stdout(sys.stderr):  # where Ray speaks of workers that died
        _on_ray(job, parts, count, progress)


def _on_ray(job: Job, parts: Path, count: int, progress: Progress) -> None:
    import ray

    try:
        ray.init(log_to_driver=False, configure_logging=False, ignore_reinit_error=True)
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(f"the Ray cluster cannot be reached: {error}") from error
    try:
        task = ray.remote(write_shard).options(max_retries=5)
        running = [task.remote(job, parts, index, count) for index in range(count)]
        while running:
            tell_read(parts, count, progress)
            done, running = ray.wait(running, timeout=TICK)
            ray.get(done)
    except ray.exceptions.RayTaskError as error:
        raise error.cause from error
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"Ray lost a task ({reason}); is there memory for so many --workers?") from error
    finally:
        ray.shutdown()
    tell_read(parts, count, progress)


ENGINES: dict[str, Engine] = {"processes": on_processes, "ray": on_ray}
