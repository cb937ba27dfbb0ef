"""Training as real processes: several ranks, signals, divergence."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from program import TINY, TRANSFORMER, process

from dialog.cli import program

pytestmark = pytest.mark.usefixtures("here")


def test_two_processes_train_into_one_folder(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["data.corpus.size=60", "trainer.max_steps=4", "trainer.val_check_interval=2"]
    done = process("train", TRANSFORMER, *sizes, "trainer.devices=2", "trainer.log_every_n_steps=1")
    assert done.code == 0, done.err
    (folder,) = done.out.splitlines()
    made = [path.parent.relative_to(here).as_posix() for path in here.rglob("recipe.yaml")]
    assert made == [folder]
    assert (here / folder / "model.safetensors").is_file()
    lines = [
        json.loads(line)
        for line in (here / folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert [line["step"] for line in lines if "train/loss" in line] == [1, 2, 3, 4]
    summary = json.loads((here / folder / "summary.json").read_text(encoding="utf-8"))
    tokens = [line["train/tokens"] for line in lines if "train/tokens" in line]
    assert tokens[-1] == summary["target_tokens"]
    assert "sync_dist" not in done.err
    program.main(["train", "--resume", folder, "--json"], standalone_mode=False)
    finished = json.loads(capsys.readouterr().out)
    assert finished == {key: summary[key] for key in ("seconds", "steps", "target_tokens")} | {
        "folder": folder
    }


@pytest.mark.endurance
def test_diverged_run_exits_with_1(here: Path) -> None:
    sizes = ["data.corpus.size=60", "trainer.max_steps=4", "trainer.val_check_interval=2"]
    wild = ["optimizer.lr=1e30", "trainer.gradient_clip_val=null"]
    done = process("train", TRANSFORMER, *sizes, *wild, "--output", "out")
    assert done.code == 1
    last = done.err.splitlines()[-1]
    assert last.startswith("dialog: step 2: loss nan, ")
    assert re.search(r"training examples \(dialogue#turn\): train-\d+#\d+, ", last)
    assert not (here / "out" / "model.safetensors").exists()


@pytest.mark.endurance
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_training(here: Path, number: signal.Signals, code: int) -> None:
    arguments = [
        "train",
        TRANSFORMER,
        *TINY,
        "trainer.max_epochs=100000",
        "trainer.log_every_n_steps=1",
        "--output",
        "run",
    ]
    command = [sys.executable, "-m", "dialog", *arguments]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8"
    )
    try:
        wait_for(here / "run" / "metrics.jsonl", child)
        child.send_signal(number)
        out, err = child.communicate(timeout=30)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == code
    assert out == ""
    assert "Traceback" not in err
    assert not (here / "run" / "model.safetensors").exists()


@pytest.mark.endurance
def test_read_only_run_folder_exits_with_2(here: Path, trained: Callable[[str], Path]) -> None:
    shutil.copytree(trained("transformer"), here / "run")
    mount = "mount --bind run run && mount -o remount,bind,ro run"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    command = [
        "unshare",
        "-m",
        "sh",
        "-c",
        f"{mount} && exec {sys.executable} -m dialog evaluate run",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert re.match(
        r"dialog: run/evaluation/\S+: Read-only file system; make it writable, or use a copy,"
        r" and run",
        line,
    )


def wait_for(path: Path, child: subprocess.Popen[str]) -> None:
    """Wait until a file exists."""
    for _ in range(1200):
        if path.exists():
            return
        assert child.poll() is None, child.stderr and child.stderr.read()
        time.sleep(0.05)
    raise AssertionError(f"{path} did not appear")
