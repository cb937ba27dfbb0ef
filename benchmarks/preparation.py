"""Preparation of DailyDialog, and of many times as much, against that of JoeyNMT and fairseq: time and peak memory.

    python benchmarks/preparation.py DAILYDIALOG [FACTOR ...] [--peers joeynmt fairseq] [--only PATTERN] [--limit TIMES]

DAILYDIALOG is the unpacked archive; at a FACTOR (1, 10 and 100) its training split is repeated so many times. The
environments of the peers are built where they are missing (benchmarks/environments.py). For Linux: memory is read from
/proc.

Every route learns a BPE of 8,000 pieces from at most a million training turns, each taken once, with two workers:

- dialog: `dialog prepare dailydialog/transformer`, from the raw files to the store that training maps. It checks every
  record, keeps each turn once, and sorts the examples by length. Once with `--workers 2` and once in one process.
- fairseq: sentencepiece (two threads), its pieces as text, `fairseq-preprocess --workers 2` with the vocabulary given.
- JoeyNMT: sentencepiece (two threads), `load_data`, and one pass of its DataLoader with two workers, which makes the
  ids. It writes none: this pass comes again in every epoch.

The peers are given their pairs of context, of up to three turns without marks between them, and response as text;
making that is not timed. Columns: seconds of the clock and of all processors; white-space words of the raw turns of all
splits per second; MiB at the peak, pages that processes share counted once; seconds and MiB against the first
route's; and the peak against the same route's at the factor before. With `--limit 2` a route that takes more than twice
the first one's time is stopped; what was seen until then, marked `>`, is less than what it takes.
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
from typing import NamedTuple

from environments import default_folder, python_of

SPLITS = ("train", "validation", "test")
SOURCE, TARGET, TURNS = "source", "target", "turns"
CONTEXT = 3
PEERS = Path(__file__).with_name("preparation_peers.py")
COLUMNS = ("seconds", "cpu s", "words/s", "MiB", "x seconds", "x MiB", "growth")


class Measured(NamedTuple):
    """What a route took."""

    seconds: float
    processors: float
    peak: float
    finished: bool = True


Command = Sequence[str | Path]


# ------------------------------------------------------------------ corpus


def repeat(corpus: Path, folder: Path, factor: int) -> None:
    """The corpus with its training split so many times over."""
    for split in SPLITS:
        (folder / split).mkdir(parents=True)
        for path in sorted((corpus / split).glob("dialogues_*.txt")):
            content = path.read_bytes().removesuffix(b"\n") + b"\n"
            with (folder / split / path.name).open("wb") as file:
                for _ in range(factor if split == "train" else 1):
                    file.write(content)


def write_pairs(corpus: Path, folder: Path) -> int:
    """A file of sources, one of targets and one of turns for each split of a corpus; the white-space words of turns."""
    words = 0
    folder.mkdir()
    for split in SPLITS:
        files = {kind: (folder / f"{split}.{kind}").open("w", encoding="utf-8") for kind in (SOURCE, TARGET, TURNS)}
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
    """The turns of each line."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield [text for turn in line.split("__eou__")[:-1] if (text := turn.strip())]


# ------------------------------------------------------------------ routes


def routes(corpus: Path, pairs: Path, work: Path, peers: Mapping[str, Path]) -> dict[str, list[Command]]:
    """The commands of each route, one after the other; the peers by the Python of their environments."""
    ours = ["prepare", "dailydialog/transformer", f"data.path={corpus}", "data.first_turns=false"]
    found: dict[str, list[Command]] = {
        "dialog, 2 workers": [[sys.executable, "-m", "dialog", *ours, "--workers", "2"]],
        "dialog": [[sys.executable, "-m", "dialog", *ours]],
    }
    if fairseq := peers.get("fairseq"):
        learn, pieces = ([fairseq, PEERS, step, pairs, work] for step in ("learn", "pieces"))
        found["fairseq"] = [learn, pieces, [fairseq, "-m", "fairseq_cli.preprocess", *_fairseq_options(work)]]
    if joeynmt := peers.get("joeynmt"):
        found["JoeyNMT"] = [[joeynmt, PEERS, step, pairs, work] for step in ("learn", "joeynmt")]
    return found


def _fairseq_options(work: Path) -> Command:
    prefixes = zip(("--trainpref", "--validpref", "--testpref"), SPLITS, strict=True)
    files = [part for option, split in prefixes for part in (option, work / split)]
    vocabulary = ["--joined-dictionary", "--srcdict", work / "dict.txt", "--workers", "2"]
    return ["--source-lang", SOURCE, "--target-lang", TARGET, *files, *vocabulary, "--destdir", work / "bin"]


def measure(commands: Sequence[Command], work: Path, log: Path, limit: float) -> Measured:
    """Run the commands, for so many seconds at most; their times in all, and the highest of their peaks."""
    seconds, processors, peak, finished = 0.0, 0.0, 0.0, True
    for command in commands:
        if finished:
            ran = run(command, work, log, limit - seconds)
            seconds, processors, peak = seconds + ran.seconds, processors + ran.processors, max(peak, ran.peak)
            finished = ran.finished
    return Measured(seconds, processors, peak, finished)


def run(command: Command, work: Path, log: Path, limit: float) -> Measured:
    """Run a command and all that it starts, and look at its memory until it ends, or is stopped at the limit."""
    environment = {**os.environ, "DIALOG_CACHE": str(work / "cache")}
    peak, done, finished = 0, 0, True
    start = time.perf_counter()
    with log.open("ab") as file:
        process = subprocess.Popen(
            list(map(str, command)), stdout=file, stderr=file, env=environment, start_new_session=True
        )
        while not done:
            begun = time.perf_counter()
            if finished and begun - start > limit:
                finished = False
                os.killpg(process.pid, signal.SIGKILL)
            peak = max(peak, memory(process.pid))
            time.sleep(max(0.05, 20 * (time.perf_counter() - begun)))  # looking takes a twentieth of the time at most
            done, status, usage = os.wait4(process.pid, os.WNOHANG)
    seconds = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and finished:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{log.read_text()[-2000:]}")
    # the greatest of any single process, which the looks in between may have missed
    return Measured(seconds, usage.ru_utime + usage.ru_stime, max(peak, usage.ru_maxrss) / 1024, finished)


def memory(process: int) -> int:
    """KiB of a process and its descendants; a page that n processes share counts as 1/n of a page in each."""
    total = 0
    for each in (process, *descendants(process)):
        try:
            rollup = Path(f"/proc/{each}/smaps_rollup").read_text()
        except OSError:  # it has ended
            continue
        found = re.search(r"^Pss:\s+(\d+)", rollup, re.MULTILINE)
        total += int(found[1]) if found else 0
    return total


def descendants(process: int) -> Iterator[int]:
    """The processes that a process, or one of these, has started."""
    try:
        lists = [task.joinpath("children").read_text() for task in Path(f"/proc/{process}/task").iterdir()]
    except OSError:
        return
    for child in " ".join(lists).split():
        yield int(child)
        yield from descendants(int(child))


# ------------------------------------------------------------------ table


def table(options: argparse.Namespace) -> Iterator[str]:
    """A line for each factor and route, as soon as it is measured."""
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
                    found = measure(commands, work, Path(root) / "log", limit)
                    shutil.rmtree(work)
                    first = first or found
                    yield f"{factor:>6} {name:<18} " + row(words, found, first, before.get(name))
                    before[name] = found


def row(words: int, found: Measured, first: Measured, before: Measured | None) -> str:
    """The figures of a route, against the first route's and against its own at the factor before."""
    more, less = ("", "") if found.finished else (">", "<")
    ratios = (f"{more}{found.seconds / first.seconds:.2f}", f"{more}{found.peak / first.peak:.2f}")
    growth = f"{more}{found.peak / before.peak:.2f}" if before else ""
    speed = f"{less}{words / found.seconds:,.0f}"
    took = (f"{more}{found.seconds:.1f}", f"{more}{found.processors:.1f}")
    figures = (*took, speed, f"{more}{found.peak:,.0f}", *ratios, growth)
    return " ".join(f"{each:>9}" for each in figures)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dailydialog", type=Path, help="the unpacked archive")
    parser.add_argument("factors", type=int, nargs="*", default=[1, 10, 100], metavar="FACTOR")
    parser.add_argument("--peers", nargs="*", default=[], choices=("joeynmt", "fairseq"), help="beside ours")
    parser.add_argument("--environments", type=Path, default=default_folder(), metavar="FOLDER", help="of the peers")
    parser.add_argument("--only", default="", metavar="PATTERN", help="routes whose names match")
    parser.add_argument("--limit", type=float, default=math.inf, metavar="TIMES", help="of the first route's time")
    for line in table(parser.parse_args()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
