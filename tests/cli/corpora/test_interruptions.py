"""Kills, full disks, closed pipes and missing permissions."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from corpus_program import (
    FORMATS,
    GOOD,
    PATIENCE,
    Done,
    command,
    counts_of,
    error_line,
    leftovers,
    many,
    run_process,
)

if sys.version_info >= (3, 14):
    pass
else:
    pass

DEADLY = """
import os, signal
from dialog.data.corpora.jsonl import JsonLines

class Deadly(JsonLines):
    reads = 0

    def _read(self):
        Deadly.reads += 1
        if str(Deadly.reads) == os.environ.get("DEADLY"):
            os.kill(os.getpid(), signal.SIGKILL)

    def dialogues(self, split):
        found = super().dialogues(split)
        yield next(found)
        self._read()
        yield from found

    def fingerprint(self):
        self._read()
        return super().fingerprint()
"""


@pytest.mark.endurance
def test_kill_leaves_only_partial_folders(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads: 1 fingerprint, 2 to learn the tokenizer, 3 to 5 to write the splits, 6 the
    fingerprint.
    """
    (here / "deadly.py").write_text(DEADLY)
    FORMATS["jsonl"].write(GOOD * 3)
    for read in (2, 4, 6):
        monkeypatch.setenv("DEADLY", str(read))
        assert run_process("data.corpus={name: deadly.Deadly}").done.code == -signal.SIGKILL
        assert all(
            path.name.startswith(".") and path.name.endswith(".partial") for path in leftovers()
        )
    monkeypatch.delenv("DEADLY")
    done = run_process("data.corpus={name: deadly.Deadly}").done
    assert counts_of(done)["examples"] == 3
    assert leftovers() == [Path(json.loads(done.out)["folder"])]


def test_file_size_limit_is_one_line() -> None:
    FORMATS["jsonl"].write(many())
    for size in (1000, 50_000):  # within the tokenizer, within the arrays
        done = run_process("data.corpus={name: jsonl}", largest=size).done
        line = error_line(done)
        assert line.startswith("cache: prepared data cannot be written there (")
        assert line.endswith("; make room, or set DIALOG_CACHE to another folder")
        assert leftovers() == []


@pytest.mark.endurance
def test_full_file_system(here: Path) -> None:
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", here / "cache"]).returncode:
        pytest.skip("no file system can be mounted here")
    FORMATS["jsonl"].write(many())
    mount = (
        "mount -t tmpfs -o size=300k none cache && {"
        f" {' '.join(map(repr, command('data.corpus={name: jsonl}')))}; "
    )
    inside = mount + "code=$?; ls -A cache; exit $code; }"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", inside], capture_output=True, text=True, timeout=PATIENCE
    )
    line = error_line(Done(done.returncode, done.stdout, done.stderr))
    assert "No space left on device" in line
    assert line.startswith("cache: prepared data cannot be written there (")


def test_full_disk_behind_standard_output() -> None:
    FORMATS["jsonl"].write()
    with Path("/dev/full").open("w") as full:
        done = run_process("data.corpus={name: jsonl}", stdout=full).done
    assert (done.code, done.err.splitlines()[-1]) == (
        2,
        "dialog: standard output: No space left on device; free disk space and run it again",
    )
    assert "Exception" not in done.err


def test_closed_pipe_exits_with_141() -> None:
    FORMATS["jsonl"].write()
    child = subprocess.Popen(
        command("data.corpus={name: jsonl}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdout is not None
    child.stdout.close()
    _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 141
    assert b"Traceback" not in err


def without_root_powers() -> list[str]:
    """The command prefix with which permissions apply to root too."""
    if os.getuid():
        return []
    powers = "-dac_override,-dac_read_search"
    found = ["setpriv", f"--inh-caps={powers}", f"--bounding-set={powers}"]
    if (
        not shutil.which("setpriv")
        or subprocess.run([*found, "true"], capture_output=True).returncode
    ):
        pytest.skip("root may read everything, and setpriv cannot drop that here")
    return found


@pytest.mark.endurance
def test_missing_permissions_are_one_line() -> None:
    def answer(*arguments: str, path: str = "corpus", verb: str = "prepare") -> str:
        line = [*before, *command(*arguments, path=path, verb=verb)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE)
        return error_line(Done(done.returncode, done.stdout, done.stderr))

    before = without_root_powers()
    FORMATS["jsonl"].write()
    Path("cache").chmod(0o555)
    assert answer("data.corpus={name: jsonl}").startswith(
        "cache: prepared data cannot be written there ("
    )
    Path("cache").chmod(0o755)
    Path("corpus/train.jsonl").chmod(0)
    for path in ("corpus", "corpus/train.jsonl"):
        line = answer("data.corpus={name: jsonl}", path=path)
        assert line.startswith("corpus/train.jsonl cannot be read (Permission denied)")
    Path("corpus").chmod(0o600)
    for corpus in ("jsonl", "dailydialog"):
        for verb, *options in (["prepare"], ["inspect", "--no-tokens"]):
            assert "Permission denied" in answer(
                f"data.corpus={{name: {corpus}}}", *options, verb=verb
            )
    Path("corpus").chmod(0o755)
    assert leftovers() == []
