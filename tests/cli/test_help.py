"""Help and version: complete, quick, without heavy imports."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from program import process, series

from dialog.cli import VERBS

pytestmark = pytest.mark.usefixtures("here")


def test_help_shows_an_example_and_loads_nothing_heavy() -> None:
    names = ["", *VERBS]
    for verb, done in zip(
        names, series([[*verb.split(), "--help"] for verb in names]), strict=True
    ):
        text = " ".join(done.out.replace("echo '{", f"python -m dialog {verb} ").split())
        assert (done.code, done.err, done.loaded) == (0, "", []), verb
        assert done.out.startswith("Usage: "), verb
        assert f"Example: python -m dialog {verb}" in text, verb


def test_help_lists_every_verb_and_is_the_default() -> None:
    done = process("--help")
    assert [verb for verb in VERBS if f"\n  {verb} " not in done.out] == []
    assert process() == done
    assert process("-h") == done


def test_help_is_quick() -> None:
    used = []
    for _ in range(3):
        child = subprocess.Popen(
            [sys.executable, "-m", "dialog", "--help"], stdout=subprocess.DEVNULL
        )
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        used.append(usage.ru_utime + usage.ru_stime)
    assert min(used) < 0.3


def test_version() -> None:
    import dialog

    assert process("--version").out == f"dialog-seq2seq, version {dialog.__version__}\n"


def test_installed_program_is_the_same() -> None:
    script = Path(sys.executable).parent / "dialog-seq2seq"
    if not script.exists():
        pytest.skip("dialog is not installed with its script")
    done = subprocess.run([script, "show", "x", "y"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.startswith("dialog: unknown recipe 'x'; choose from ")
