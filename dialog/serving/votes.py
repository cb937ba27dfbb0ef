"""Votes on pairs of replies, as lines of JSON in a file that `compare --ratings` reads."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

from dialog.errors import UserError
from dialog.escaping import to_json
from dialog.serving.replies import RequestError

MOST_BYTES = 256 * 2**20
"""Size of a file of votes."""


class VoteFile:
    """A file to which votes are appended; only its owner can read it, since it has texts of chats.

    Raises:
        UserError: the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        try:
            os.close(self._open())
        except OSError as error:
            raise UserError(
                f"--votes {path}: {error.strerror}; choose a file that can be written"
            ) from error

    def append(self, vote: object) -> None:
        """Write a vote as a line; an unfinished line before it is ended first.

        Raises:
            RequestError: the file is full or cannot be written; it is then as before.
        """
        line = (to_json(vote) + "\n").encode()
        try:
            with self._lock:
                self._write(line)
        except OSError as error:
            raise RequestError(507, f"votes cannot be written: {error.strerror}") from error

    def _write(self, line: bytes) -> None:
        descriptor = self._open()
        try:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                line = b"\n" + line
            if size + len(line) > MOST_BYTES:
                raise RequestError(507, "the file of votes is full; start serve with another one")
            try:
                while line:
                    line = line[os.write(descriptor, line) :]
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        # without O_NONBLOCK, a pipe would wait for its reader
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o600)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise OSError(0, "not a file")
        return descriptor
