"""Compare the preparation of DailyDialog, and of multiples of it, with JoeyNMT and fairseq: time
and peak memory.

    python benchmarks/preparation.py DAILYDIALOG [FACTOR ...] [--peers joeynmt fairseq] [--only
    PATTERN] [--limit TIMES]

DAILYDIALOG is the unpacked archive; at a FACTOR (1, 10 and 100) its training split is repeated
FACTOR times. Missing environments of the peers are built (benchmarks/environments.py). Linux only:
memory is read from /proc.

Every system learns a BPE of 8,000 pieces from at most a million distinct training turns, with two
workers:

- dialog: `dialog prepare dailydialog/transformer`, from raw files to the store that training maps.
  It checks every record, stores each turn once, and sorts the examples by length. With
  `--workers 2` and in one process.
- fairseq: sentencepiece (two threads), its pieces as text, `fairseq-preprocess --workers 2` with
  that vocabulary.
- JoeyNMT: sentencepiece (two threads), `load_data`, and one pass of its DataLoader with two
  workers, which computes the ids. It stores none: this pass is repeated in every epoch.

The peers read text pairs of a response and its context of up to three turns, without marks between
them; writing these is not timed.

    python benchmarks/preparation.py --inspect TURNS ...

measures `dialog inspect`'s sections, and the survey of the filter against leaks, over a corpus of
TURNS turns (such as 1e7) that a generator makes, of which a hundredth is validation and a hundredth
test: `growth` should stay near 1. Temporary files take 60 bytes a turn.

Columns: wall-clock and CPU seconds; white-space words of the raw turns of all splits per second; peak MiB, shared pages counted once; seconds and MiB relative to the
first system; peak relative to the same system at the previous factor. With `--limit 2` a system
that takes more than twice the first one's time is stopped; values at that moment are marked `>` and
are lower bounds.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from environments import default_folder, python_of

from dialog.data.dialogue import Dialogue, Turn
from dialog.data.filters import DropLeakingDialogues
from dialog.data.preparation.filtering import survey_filters
from dialog.inspection.inspect import KEEP_ALL, inspect

SPLITS = ("train", "validation", "test")
SOURCE = "source"
TARGET = "target"
TURNS = "turns"
CONTEXT = 3
PEERS = Path(__file__).with_name("preparation_peers.py")
COLUMNS = ("seconds", "cpu s", "words/s", "MiB", "x seconds", "x MiB", "growth")


class Measured(NamedTuple):
    """Time and memory of a system."""

    seconds: float
    processors: float
    peak: float
    finished: bool = True


Command = Sequence[str | Path]


# ------------------------------------------------------------------ corpus


def repeat(corpus: Path, folder: Path, factor: int) -> None:
    """Copy the corpus, repeating its training split."""
    for split in SPLITS:
        (folder / split).mkdir(parents=True)
        for path in sorted((corpus / split).glob("dialogues_*.txt")):
            content = path.read_bytes().removesuffix(b"\n") + b"\n"
            with (folder / split / path.name).open("wb") as file:
                for _ in range(factor if split == "train" else 1):
                    file.write(content)


def write_pairs(corpus: Path, folder: Path) -> int:
    """Write files of sources, targets and turns for each split; return the number of white-space
    words.
    """
    words = 0
    folder.mkdir()
    for split in SPLITS:
        files = {
            kind: (folder / f"{split}.{kind}").open("w", encoding="utf-8")
            for kind in (SOURCE, TARGET, TURNS)
        }
        for turns in dialogues(corpus / split / f"dialogues_{split}.txt"):
            words += sum(len(turn.split()) for turn in turns)
            print(*turns, sep="\n", file=files[TURNS])
            for response in range(1, len(turns)):
                print(*turns[max(0, response - CONTEXT) : response], file=files[SOURCE])
                print(turns[response], file=files[TARGET])
        for file in files.values():
            file.close()
    return words


def dialogues(path: Path) -> Iterator[list[str]]:
    """Yield the turns of each line."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield [text for turn in line.split("__eou__")[:-1] if (text := turn.strip())]


# ------------------------------------------------------------------ routes


def routes(
    corpus: Path, pairs: Path, work: Path, peers: Mapping[str, Path]
) -> dict[str, list[Command]]:
    """Return the commands of each system; peers run in the Python of their environments."""
    ours = ["prepare", "dailydialog/transformer", f"data.path={corpus}", "data.first_turns=false"]
    commands: dict[str, list[Command]] = {
        "dialog, 2 workers": [[sys.executable, "-m", "dialog", *ours, "--workers", "2"]],
        "dialog": [[sys.executable, "-m", "dialog", *ours]],
    }
    if fairseq := peers.get("fairseq"):
        learn, pieces = ([fairseq, PEERS, step, pairs, work] for step in ("learn", "pieces"))
        commands["fairseq"] = [
            learn,
            pieces,
            [fairseq, "-m", "fairseq_cli.preprocess", *_fairseq_options(work)],
        ]
    if joeynmt := peers.get("joeynmt"):
        commands["JoeyNMT"] = [[joeynmt, PEERS, step, pairs, work] for step in ("learn", "joeynmt")]
    return commands


def _fairseq_options(work: Path) -> Command:
    prefixes = zip(("--trainpref", "--validpref", "--testpref"), SPLITS, strict=True)
    files = [part for option, split in prefixes for part in (option, work / split)]
    vocabulary = ["--joined-dictionary", "--srcdict", work / "dict.txt", "--workers", "2"]
    return [
        "--source-lang",
        SOURCE,
        "--target-lang",
        TARGET,
        *files,
        *vocabulary,
        "--destdir",
        work / "bin",
    ]


def measure(commands: Sequence[Command], work: Path, log: Path, limit: float) -> Measured:
    """Run the commands within a time limit; return their total times and highest peak."""
    seconds = 0.0
    processors = 0.0
    peak = 0.0
    finished = True
    for command in commands:
        if finished:
            ran = run(command, work, log, limit - seconds)
            seconds = seconds + ran.seconds
            processors = processors + ran.processors
            peak = max(peak, ran.peak)
            finished = ran.finished
    return Measured(seconds, processors, peak, finished)


def run(command: Command, work: Path, log: Path, limit: float) -> Measured:
    """Run a command and sample the memory of its processes until it ends or reaches the limit."""
    environment = {**os.environ, "DIALOG_CACHE": str(work / "cache")}
    peak = 0
    done = 0
    finished = True
    start = time.perf_counter()
    with log.open("ab") as file:
        process = subprocess.Popen(
            list(map(str, command)),
            stdout=file,
            stderr=file,
            env=environment,
            start_new_session=True,
        )
        while not done:
            begun = time.perf_counter()
            if finished and begun - start > limit:
                finished = False
                os.killpg(process.pid, signal.SIGKILL)
            peak = max(peak, memory(process.pid))
            # sampling takes a twentieth of the time at most
            time.sleep(max(0.05, 20 * (time.perf_counter() - begun)))
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and finished:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{log.read_text()[-2000:]}")
    # ru_maxrss: the peak of a single process, which sampling may have missed
    return Measured(
        seconds, usage.ru_utime + usage.ru_stime, max(peak, usage.ru_maxrss) / 1024, finished
    )


def memory(process: int) -> int:
    """Return the KiB of a process and its descendants; a page shared by n processes counts 1/n in
    each.
    """
    total = 0
    for number in (process, *descendants(process)):
        try:
            rollup = Path(f"/proc/{number}/smaps_rollup").read_text()
        except OSError:  # it has ended
            continue
        share = re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)
        total += int(share[1]) if share else 0
    return total


def descendants(process: int) -> Iterator[int]:
    """Yield all descendants of a process."""
    try:
        lists = [
            task.joinpath("children").read_text()
            for task in Path(f"/proc/{process}/task").iterdir()
        ]
    except OSError:
        return
    for child in " ".join(lists).split():
        yield int(child)
        yield from descendants(int(child))


# ------------------------------------------------------------------ table


def table(options: argparse.Namespace) -> Iterator[str]:
    """Yield one line per factor and system, as soon as it is measured."""
    yield f"{'factor':>6} {'route':<18} " + " ".join(f"{title:>9}" for title in COLUMNS)
    before: dict[str, Measured] = {}
    peers = {name: python_of(options.environments, name) for name in options.peers}
    for factor in options.factors:
        with tempfile.TemporaryDirectory() as root:
            corpus, pairs, work = (Path(root) / name for name in ("corpus", "pairs", "work"))
            repeat(options.dailydialog, corpus, factor)
            words = write_pairs(corpus, pairs)
            first: Measured | None = None
            for name, commands in routes(corpus, pairs, work, peers).items():
                if re.search(options.only, name):
                    work.mkdir()
                    limit = options.limit * first.seconds if first else math.inf
                    measured = measure(commands, work, Path(root) / "log", limit)
                    shutil.rmtree(work)
                    first = first or measured
                    yield f"{factor:>6} {name:<18} " + row(words, measured, first, before.get(name))
                    before[name] = measured


def row(words: int, measured: Measured, first: Measured, before: Measured | None) -> str:
    """Format the figures of a system, relative to the first and to its own at the previous
    factor.
    """
    more, less = ("", "") if measured.finished else (">", "<")
    ratios = (
        f"{more}{measured.seconds / first.seconds:.2f}",
        f"{more}{measured.peak / first.peak:.2f}",
    )
    growth = f"{more}{measured.peak / before.peak:.2f}" if before else ""
    speed = f"{less}{words / measured.seconds:,.0f}"
    took = (f"{more}{measured.seconds:.1f}", f"{more}{measured.processors:.1f}")
    figures = (*took, speed, f"{more}{measured.peak:,.0f}", *ratios, growth)
    return " ".join(f"{figure:>9}" for figure in figures)


# ------------------------------------------------------------------ inspection


class Generated:
    """A corpus of about `turns` turns in dialogues of 8, of words with the frequencies of Zipf."""

    def __init__(self, turns: int) -> None:
        self.dialogues_of = {"train": turns // 8, "validation": turns // 800, "test": turns // 800}

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        """Yield dialogues, the same at every call."""
        random = np.random.default_rng(SPLITS.index(split))
        for number in range(self.dialogues_of[split]):
            words = np.minimum(random.zipf(1.2, 96), 50_000).tolist()
            texts = (" ".join(f"w{word}" for word in words[12 * n : 12 * n + 12]) for n in range(8))
            turns = tuple(Turn("AB"[n % 2], text) for n, text in enumerate(texts))
            yield Dialogue(f"{split}-{number}", turns)

    def fingerprint(self) -> dict[str, str]:
        """Return the sizes of the splits."""
        return {split: str(number) for split, number in self.dialogues_of.items()}


def inspect_generated(turns: int) -> None:
    """Inspect a generated corpus and survey it for leaks."""
    corpus = Generated(turns)
    inspect(corpus, quiet=True)
    survey_filters([DropLeakingDialogues()], corpus.dialogues, KEEP_ALL)


def inspection_table(sizes: Sequence[int]) -> Iterator[str]:
    """Yield one line per number of turns, as soon as it is measured."""
    yield " ".join(f"{title:>12}" for title in ("turns", "seconds", "cpu s", "MiB", "growth"))
    before: Measured | None = None
    for turns in sizes:
        with tempfile.TemporaryDirectory() as root:
            command = [sys.executable, __file__, "--inspect-here", str(turns)]
            measured = run(command, Path(root), Path(root) / "log", math.inf)
        growth = f"{measured.peak / before.peak:.2f}" if before else ""
        figures = (f"{measured.seconds:.0f}", f"{measured.processors:.0f}", f"{measured.peak:,.0f}")
        yield " ".join(f"{figure:>12}" for figure in (f"{turns:,}", *figures, growth))
        before = measured


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dailydialog", type=Path, nargs="?", help="the unpacked archive")
    parser.add_argument("factors", type=int, nargs="*", default=[1, 10, 100], metavar="FACTOR")
    parser.add_argument(
        "--peers", nargs="*", default=[], choices=("joeynmt", "fairseq"), help="beside ours"
    )
    parser.add_argument(
        "--environments", type=Path, default=default_folder(), metavar="FOLDER", help="of the peers"
    )
    parser.add_argument("--only", default="", metavar="PATTERN", help="routes whose names match")
    parser.add_argument(
        "--limit", type=float, default=math.inf, metavar="TIMES", help="of the first route's time"
    )
    sizes: dict[str, Any] = {"type": lambda text: int(float(text)), "metavar": "TURNS"}
    parser.add_argument("--inspect", nargs="+", help="inspect generated corpora", **sizes)
    parser.add_argument("--inspect-here", help=argparse.SUPPRESS, **sizes)
    options = parser.parse_args()
    if options.inspect_here is not None:
        inspect_generated(options.inspect_here)
        return
    if options.inspect is None and options.dailydialog is None:
        parser.error("give DAILYDIALOG or --inspect")
    for line in table(options) if options.inspect is None else inspection_table(options.inspect):
        print(line, flush=True)


if __name__ == "__main__":
    main()
