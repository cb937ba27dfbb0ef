"""Let a program answer the contexts of a test set: JSON lines on its standard input and output.

It reads the lines of ``dialog contexts`` and writes {"id", "response"} for each, in any order, with
"nll" and other numbers if it has them. A line {"system": {...}} describes it: model, version,
tokens, cost. A program may answer line by line, or read all lines first.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from dialog.comparison.systems.answers import LOG, Answers
from dialog.comparison.systems.specification import Specification
from dialog.errors import UserError
from dialog.escaping import one_line, to_json

MOST_BYTES = 1_000_000
"""Longest line of a program."""
ATTEMPTS = 2
"""Starts in a row without a new answer after which a program is given up."""
TAIL = 2000
"""Last characters of the log of which a message shows the last line."""
GRACE = 5.0
"""Seconds in which a program that has closed its output may end."""

log = logging.getLogger("dialog")


def answer_contexts(
    system: Specification, rows: Sequence[Mapping[str, Any]], answers: Answers, *, seconds: float
) -> None:
    """Have a program answer the contexts that lack an answer, and start it again when it ends or
    stops early.

    Answers are kept in the folder as they come, so a later call continues.

    Args:
        system: The program.
        rows: Lines of ``dialog contexts``, or other questions with ids.
        answers: Answers so far, which are added to.
        seconds: Longest time for one response, and for the start of the program.

    Raises:
        UserError: the program cannot be started, writes something else than answers, or gives no
            new answer in `ATTEMPTS` starts. The answers so far are kept.
    """
    answers.check_same(system.fingerprint())
    idle = 0
    while missing := [row for row in rows if row["id"] not in answers.lines]:
        before = len(answers.lines)
        reason = run_once(system.command, missing, answers, seconds=seconds)
        new = len(answers.lines) - before
        idle = 0 if new else idle + 1
        if new == len(missing):
            break
        done = len(rows) - len(missing) + new
        state = f"{done:,} of {len(rows):,} {answers.unit} are answered"
        if idle == ATTEMPTS:
            first = to_json(next(row["id"] for row in rows if row["id"] not in answers.lines))
            raise UserError(
                f"{system.name}: {reason}{last_line(answers.folder / LOG)}; {state} and kept, the"
                f" next is {first}; mend the program and repeat the command"
            )
        log.warning("WARNING: %s: %s; %s, it is started again", system.name, reason, state)


def run_once(
    command: Sequence[str],
    rows: Sequence[Mapping[str, Any]],
    answers: Answers,
    *,
    seconds: float,
) -> str:
    """Start a program, keep its answers, and return why it ended.

    Raises:
        UserError: it cannot be started, or a line is no answer to an open context.
    """
    answers.reports.append({"started": time.strftime("%Y-%m-%dT%H:%M:%S%z")})
    began = time.monotonic()
    before = len(answers.lines)
    with (answers.folder / LOG).open("ab") as errors:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                # a signal of the terminal reaches it through this process, once
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise UserError(f"{answers.name}: {command[0]} cannot be started ({error})") from error
    assert child.stdin is not None
    assert child.stdout is not None
    lines: queue.Queue[bytes | None] = queue.Queue()
    writer = threading.Thread(target=write_rows, args=(child.stdin, rows), daemon=True)
    reader = threading.Thread(target=read_lines, args=(child.stdout, lines), daemon=True)
    try:
        writer.start()
        reader.start()
        return keep_answers(child, lines, answers, len(rows), seconds=seconds)
    finally:
        stop(child)
        writer.join(GRACE)
        reader.join(GRACE)
        used = {"answers": len(answers.lines) - before, "seconds": time.monotonic() - began}
        answers.reports[-1] |= used
        answers.save()


def keep_answers(
    child: subprocess.Popen[bytes],
    lines: queue.Queue[bytes | None],
    answers: Answers,
    number: int,
    *,
    seconds: float,
) -> str:
    """Keep the answers of a program until it ends, and return why it ended."""
    before = len(answers.lines)
    while True:
        is_done = len(answers.lines) - before == number
        try:
            content = lines.get(timeout=GRACE if is_done else seconds)
        except queue.Empty:
            return f"gave no answer within {seconds:g} seconds"
        if content is None:
            break
        if len(content) > MOST_BYTES:
            raise UserError(
                f"{answers.name}: wrote a line of more than {MOST_BYTES:,} bytes; the"
                f" {len(answers.lines):,} answers so far are kept"
            )
        if content.strip():
            answers.add(content)
    done = len(answers.lines) - before
    with suppress(subprocess.TimeoutExpired):
        child.wait(GRACE)
    if child.returncode is not None and child.returncode < 0:
        return f"was ended by {signal.Signals(-child.returncode).name}"
    if child.returncode:
        return f"ended with exit code {child.returncode}"
    return f"ended after {done:,} of {number:,} answers"


def write_rows(file: IO[bytes], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write all rows and close the file; a program that has ended reads no more."""
    with suppress(OSError, ValueError):
        for row in rows:
            file.write(to_json(row).encode() + b"\n")
            file.flush()
    with suppress(OSError, ValueError):
        file.close()


def read_lines(file: IO[bytes], lines: queue.Queue[bytes | None]) -> None:
    """Put each line into a queue, and None at the end; a line that is too long is the last."""
    with suppress(OSError, ValueError):
        while content := file.readline(MOST_BYTES + 1):
            lines.put(content)
            if len(content) > MOST_BYTES:
                break
    lines.put(None)
    with suppress(OSError, ValueError):
        file.close()


def stop(child: subprocess.Popen[bytes]) -> None:
    """End a program and the processes that it has started."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def last_line(path: Path) -> str:
    """Return the last line of a log in brackets, for a message; empty without one."""
    with path.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
        lines = file.read().decode(errors="replace").split("\n")
    written = [line.strip() for line in lines if line.strip()]
    return f" ({one_line(written[-1])[:200]})" if written else ""
