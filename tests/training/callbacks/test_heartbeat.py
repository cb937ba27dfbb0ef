"""End of a process whose collective is broken."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os
from unittest import mock
from dialog.errors import RunError
from dialog.training.callbacks.heartbeat import HeartbeatCallback
from dialog.training.distributed.heartbeat import Address, Heartbeat

class Aborting:
    abort = os.abort
    def __del__(self):
        self.abort()

thread = Aborting()
callback = HeartbeatCallback()
callback.heartbeat = Heartbeat(Address(0, 1, "host"), 2, secret="")
if FAILED:
    callback.heartbeat.cause = "process 1 is gone"
    callback.heartbeat.failed.set()
error = RuntimeError("connection closed") if FAILED else KeyError()
try:
    callback.on_exception(mock.MagicMock(), mock.MagicMock(), error)
except RunError as error:
    print(error)
"""


def test_a_broken_collective_cannot_abort_the_end() -> None:
    codes = []
    for failed in (True, False):
        ended = subprocess.run([sys.executable, "-c", f"FAILED = {failed}\n{PROGRAM}"], capture_output=True, text=True)
        codes.append(ended.returncode)
        assert ended.stdout == "process 1 is gone\n" * failed, ended.stderr
    assert codes == [1, -6]
