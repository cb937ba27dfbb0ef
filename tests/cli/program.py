"""The program as a real process, and the files that it leaves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

HEAVY = ("torch", "lightning", "numpy", "wandb")
SERIES = """
import contextlib, io, json, sys
from dialog.cli import main
done = []
for arguments in json.load(sys.stdin):
    sys.argv = ["dialog", *arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = end.code
    loaded = [name for name in %r if name in sys.modules]
    done.append([code or 0, out.getvalue(), err.getvalue(), loaded])
json.dump(done, sys.stdout)
"""
TRANSFORMER = "quickstart/transformer"
TINY = [
    *("data.corpus.size=50", "data.tokenizer.vocabulary=400", "model.embedding_size=8"),
    *(
        f"model.{side}.{size}"
        for side in ("encoder", "decoder")
        for size in ("heads=2", "layers=1", "feed_forward_size=8")
    ),
]


class Done(NamedTuple):
    code: int
    out: str
    err: str
    loaded: Sequence[str] = ()


def process(*arguments: str, start: tuple[str, ...] = ("-m", "dialog"), stdin: str = "") -> Done:
    """Run a real process."""
    done = subprocess.run(
        [sys.executable, *start, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def series(commands: Sequence[Sequence[str]]) -> list[Done]:
    """Run commands one after the other in one new process, with the heavy packages that are loaded
    after each.
    """
    done = process(
        "-c", SERIES % (HEAVY,), start=(), stdin=json.dumps([list(command) for command in commands])
    )
    assert done.code == 0, done.err
    return [Done(*each) for each in json.loads(done.out)]


def files(folder: Path) -> dict[str, bytes | None]:
    """The content of every file in a folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }
