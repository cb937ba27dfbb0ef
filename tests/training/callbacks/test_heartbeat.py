"""End of a process whose collective is broken."""

from __future__ import annotations

import subprocess
import sys
from unittest import mock

import pytest

from dialog.errors import LostProcessError
from dialog.training.callbacks.heartbeat import HeartbeatCallback
from dialog.training.distributed.heartbeat import Address, Heartbeat

PROGRAM = """
import os
import dialog.cli
from dialog.errors import LostProcessError, RunError

class Aborting:
    abort = os.abort
    def __del__(self):
        self.abort()

def fail(*args, **kwargs):
    raise KIND("process 1 is gone")

thread = Aborting()
dialog.cli.program.main = fail
dialog.cli.main()
"""


@pytest.mark.parametrize(("kind", "code"), [("LostProcessError", 1), ("RunError", -6)])
def test_a_broken_collective_cannot_abort_the_end(kind: str, code: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("KIND", kind)], capture_output=True, text=True
    )
    assert (ended.returncode, ended.stderr.splitlines()[0]) == (code, "dialog: process 1 is gone")


def test_error_of_a_broken_collective_names_the_cause() -> None:
    callback = HeartbeatCallback()
    callback.heartbeat = Heartbeat(Address(0, 1, "host"), 2, secret="")
    callback.heartbeat.cause = "process 1 is gone"
    callback.heartbeat.failed.set()
    with pytest.raises(LostProcessError, match="process 1 is gone"):
        callback.on_exception(mock.MagicMock(), mock.MagicMock(), RuntimeError("connection closed"))
