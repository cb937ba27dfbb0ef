"""Corpora in every text format, and the program that prepares them, in this process or another."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

import pytest

from dialog.cli import main
from dialog.config.compose import Composed, compose
from dialog.config.trust import Trust
from dialog.data.dialogue import SPLITS
from dialog.escaping import one_line

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
}
RECIPE = "quickstart/transformer"
PATIENCE = 60
"""Seconds after which a command counts as hanging."""


class Done(NamedTuple):
    code: int
    out: str
    err: str


@contextmanager
def patience() -> Iterator[None]:
    """Raise TimeoutError after `PATIENCE` seconds."""

    def late(*_: object) -> None:
        raise TimeoutError("the command hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@cache
def composed(recipe: str, overrides: tuple[str, ...], *, trust: Trust) -> Composed:
    """Compose each recipe once."""
    return compose(recipe, overrides, trust=trust)


def run_program(*arguments: str) -> Done:
    """Run the program in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
        patience(),
    ):
        patch.setattr(sys, "argv", ["dialog", *arguments])
        patch.setattr("dialog.cli.prepare.compose", composed)
        patch.setattr(os, "fsync", lambda _: None)
        with pytest.raises(SystemExit) as ended:
            main()
    return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def prepare(format: str, *arguments: str, path: str = "corpus") -> Done:
    corpus = FORMATS[format].corpus if format in FORMATS else format
    return run_program(
        "prepare", RECIPE, "--json", f"data.corpus={{{corpus}}}", f"data.path={path}", *arguments
    )


def error_line(done: Done) -> str:
    """The one line of a UserError."""
    *progress, last = done.err.rstrip("\n").split("\n")
    assert done.code == 2, done
    assert done.out == ""
    inspected = {f"inspecting {split}" for split in SPLITS}
    assert {line.partition(":")[0] for line in progress} <= {
        "learning the tokenizer",
        "training the tokenizer",
        "tokenising",
        "joining",
        *inspected,
    }
    assert last.startswith("dialog: ")
    assert one_line(last) == last
    return last.removeprefix("dialog: ")


def counts_of(done: Done, split: str = "train") -> dict[str, int]:
    """The counts of a split, after checking that they add up."""
    assert done.code == 0, done.err
    counts = json.loads(done.out)["splits"][split]
    for what in ("dialogues", "turns"):
        dropped = sum(
            number for key, number in counts.items() if key.startswith(f"dropped {what}: ")
        )
        assert counts[what] + dropped == counts[f"{what} read"]
    return dict(counts)


def leftovers(cache: str = "cache") -> list[Path]:
    return [*Path(cache).iterdir()]


class Format(NamedTuple):
    """Component of a corpus, the files of a split, and valid content for each file."""

    corpus: str
    files: Sequence[str]
    good: Sequence[bytes]
    splits: Mapping[str, str] = {split: split for split in SPLITS}

    def write(self, *train: bytes, folder: str = "corpus") -> None:
        """Write a folder with this training split and valid other splits."""
        for split, part in self.splits.items():
            for name, good, bad in zip(self.files, self.good, train or self.good, strict=True):
                path = Path(folder) / name.format(part)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bad if split == "train" else good)


VALID = {"train": "train", "validation": "valid", "test": "test"}
FORMATS = {
    "jsonl": Format("name: jsonl", ["{}.jsonl"], [b'{"turns": ["Hi", "Hello"]}\n']),
    "dailydialog": Format(
        "name: dailydialog", ["{0}/dialogues_{0}.txt"], [b"Hi __eou__ Hello __eou__\n"]
    ),
    "text": Format("name: text", ["{}.txt"], [b"Hi\nHello\n\n"]),
    "csv": Format("name: csv", ["{}.csv"], [b"dialogue,speaker,text\na,A,Hi\na,B,Hello\n"]),
    "messages": Format(
        "name: messages",
        ["{}.jsonl"],
        [
            b'{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content":'
            b' "Hello"}]}\n'
        ],
    ),
    "parallel": Format(
        "name: parallel, source: de, target: en, validation: validation",
        ["{}.de", "{}.en"],
        [b"Hallo\n", b"Hello\n"],
    ),
    "parlai": Format(
        "name: parlai", ["{}.txt"], [b"text:Hi\tlabels:Hello\tepisode_done:True\n"], VALID
    ),
    "personachat": Format("name: personachat", ["{}_self_original.txt"], [b"1 Hi\tHello\n"], VALID),
}


def turns(*texts: str, **fields: object) -> bytes:
    return json.dumps({"turns": texts, **fields}).encode() + b"\n"


GOOD = turns("Hi", "Hello")

ANY = "data.max_dropped=1"


def many() -> bytes:
    """Enough lines that some are read before the damaged end of an archive."""
    return b"".join(turns(f"Question {n} ?", f"Answer {n * n} .") for n in range(3000))


class Ended(NamedTuple):
    """A finished process, its processor time in seconds, and its peak memory in bytes."""

    done: Done
    seconds: float
    peak: int


WATCH = """
import json, os, subprocess, sys
child = subprocess.Popen(sys.argv[2:])
_, status, usage = os.wait4(child.pid, 0)
with open(sys.argv[1], "w") as file:
    json.dump([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024], file)
"""
"""A small parent process, because the peak of a child starts at that of its parent."""


def command(*arguments: str, path: str = "corpus", verb: str = "prepare") -> list[str]:
    return [sys.executable, "-m", "dialog", verb, RECIPE, "--json", f"data.path={path}", *arguments]


def run_process(
    *arguments: str, largest: int | None = None, stdout: int | IO[str] = subprocess.PIPE
) -> Ended:
    """Run the program in a process that may write files of up to ``largest`` bytes."""

    def bounded() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
        if largest is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))

    child = subprocess.Popen(
        [sys.executable, "-c", WATCH, "watched", *command(*arguments)],
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=bounded,
        start_new_session=True,
    )
    try:
        out, err = child.communicate(timeout=PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    code, seconds, peak = json.loads(Path("watched").read_text())
    return Ended(Done(code, out, err), seconds, peak)
