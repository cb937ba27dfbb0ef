"""Preparation by real processes: environments change no byte, kills leave nothing that looks
finished.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from processes import children

from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.dialogue import Entry
from dialog.data.preparation import engines
from dialog.data.preparation.job import Job
from dialog.data.preparation.prepare import prepare
from dialog.errors import UserError

ROOT = Path(__file__).parents[3]
HELD = """
import os, time
import numpy as np
from pathlib import Path
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues

class Held(BuiltinDialogues):
    '''Two blocks; workers wait in the second until a file exists.'''

    def __init__(self, until):
        super().__init__(size=1030)
        self.until, self.main = Path(until), os.getpid()

    def dialogues(self, split):
        for number, dialogue in enumerate(super().dialogues(split)):
            while (split, number) == ("train", 1028) and os.getpid() != self.main and not self.until.exists():
                time.sleep(0.02)
            yield dialogue

class Even:
    def survey(self, splits):
        return np.array([number for number, _ in splits["train"] if number % 3 == 0])

    def drops(self, surveyed, number, dialogue):
        turns = range(len(dialogue.turns))
        return list(turns if number in surveyed else turns[1::2])
"""
CLUSTER = """
import ray, sys
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a user's corpus, importable by new processes."""
    folder = tmp_path_factory.mktemp("held")
    (folder / "held.py").write_text(HELD)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(folder), str(ROOT)]))
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
        yield folder


@pytest.fixture(scope="module")
def cluster(held: Path) -> Iterator[str]:
    """The address of a Ray cluster, one for all tests."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    command = [sys.executable, "-c", CLUSTER]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout
    yield next(line.strip() for line in process.stdout if ":" in line)
    process.communicate("")


def start(
    cache: Path,
    *arguments: str,
    until: Path = ROOT,
    stderr: int = subprocess.PIPE,
    **environment: str,
) -> subprocess.Popen[str]:
    recipe = ["quickstart/transformer", f"data.corpus={{name: held.Held, until: {until}}}"]
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "dialog",
            "prepare",
            *recipe,
            "data.tokenizer.vocabulary=400",
            "--json",
            *arguments,
        ],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
        env={**os.environ, "DIALOG_CACHE": str(cache), **environment},
    )


def finish(process: subprocess.Popen[str]) -> Path:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return Path(json.loads(out)["folder"])


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


@pytest.mark.usefixtures("held")
def test_environment_and_workers_change_no_byte(
    tmp_path: Path, contents: Callable[[Path], object]
) -> None:
    filters = "data.filters=[{name: held.Even}]"
    one = start(
        tmp_path / "one", filters, LC_ALL="C", PYTHONHASHSEED="1", TZ="Asia/Tokyo", PYTHONUTF8="0"
    )
    two = start(
        tmp_path / "two", filters, "--workers", "3", PYTHONHASHSEED="2", TZ="America/New_York"
    )
    folder = finish(two)
    assert contents(finish(one)) == contents(folder)
    assert list((tmp_path / "two").iterdir()) == [folder]


# ------------------------------------------------------------------ kills


@pytest.fixture
def running(held: Path, tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """A preparation whose two workers wait, and its cache."""
    cache = tmp_path / "cache"
    process = start(cache, "--workers", "2", until=held / "never")
    wait_for(lambda: len(list(cache.glob(".*.partial/shards/.*-of-2.*"))) == 2)
    yield process, cache
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.endurance
def test_after_a_kill_of_all_nothing_looks_finished(
    running: tuple[subprocess.Popen[str], Path], held: Path
) -> None:
    process, cache = running
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert [path for path in cache.iterdir() if not path.name.startswith(".")] == []
    folder = finish(start(cache, until=held / "never"))
    assert list(cache.iterdir()) == [folder]


def test_a_killed_worker_is_a_user_error(running: tuple[subprocess.Popen[str], Path]) -> None:
    process, cache = running
    os.kill(workers_of(process.pid)[0], signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err.splitlines()[-1].startswith("dialog: a process of the preparation was killed")
    assert list(cache.iterdir()) == []


@pytest.mark.endurance
def test_workers_end_with_a_killed_preparation(running: tuple[subprocess.Popen[str], Path]) -> None:
    process, _ = running
    workers = workers_of(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(workers) == 2
    wait_for(lambda: not any(alive(worker) for worker in workers), seconds=5)


def alive(process: int) -> bool:
    """Zombies have no command line."""
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except OSError:
        return False


def workers_of(preparation: int) -> list[int]:
    """Return the processes that a preparation has spawned, without multiprocessing's own."""
    return [
        pid
        for pid in children(preparation)
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


# ------------------------------------------------------------------ progress


def test_workers_report_progress_before_one_finishes(held: Path, tmp_path: Path) -> None:
    until, cache, shown = tmp_path / "until", tmp_path / "cache", bytearray()
    with terminal(shown) as err:
        process = start(cache, "--workers", "2", until=until, stderr=err)
        try:
            wait_for(lambda: b"1,230 of 1,236" in shown)  # validation, test and one block of train
            assert not list(cache.glob(".*.partial/shards/[0-9]*-of-2"))
        finally:
            until.touch()
            finish(process)
        wait_for(lambda: b"1,236 of 1,236" in shown)


@contextmanager
def terminal(shown: bytearray) -> Iterator[int]:
    """Yield a terminal; its output is added to `shown`."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 100))

    def read() -> None:
        with suppress(OSError):  # the end of the terminal
            while more := os.read(ours, 4096):
                shown.extend(more)

    threading.Thread(target=read, daemon=True).start()
    try:
        yield theirs
    finally:
        os.close(theirs)


# ------------------------------------------------------------------ Ray


@pytest.mark.endurance
def test_ray_retries_a_killed_task(
    held: Path, cluster: str, tmp_path: Path, contents: Callable[[Path], object]
) -> None:
    until = tmp_path / "until"
    process = start(
        tmp_path / "ray", "--engine", "ray", "--workers", "3", until=until, RAY_ADDRESS=cluster
    )
    wait_for(lambda: commands("ray::write_shard"), seconds=120)
    os.kill(commands("ray::write_shard")[0], signal.SIGKILL)
    until.touch()
    assert contents(finish(process)) == contents(finish(start(tmp_path / "here", until=until)))


@pytest.mark.endurance
@pytest.mark.parametrize(
    ("dies", "message"), [(False, "f:1: broken"), (True, "Ray lost a task .* --workers")]
)
def test_an_error_in_a_ray_task_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cluster: str,
    job: Callable[..., Job],
    dies: bool,
    message: str,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", cluster)
    monkeypatch.setattr(engines, "RETRIES", 1)
    here = os.getpid()

    class Wrong(BuiltinDialogues):
        def dialogues(self, split: str) -> Iterator[Entry]:
            if os.getpid() != here:
                if dies:
                    os._exit(1)
                raise UserError("f:1: broken")
            yield from super().dialogues(split)

    with pytest.raises(UserError, match=f"^{message}") as raised:
        prepare(job(Wrong(size=20)), tmp_path, engine="ray", workers=1)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def commands(name: str) -> list[int]:
    """Return the processes whose command line begins with a name."""
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "cmdline").read_bytes().startswith(name.encode()):
                processes.append(int(folder.name))
    return processes
