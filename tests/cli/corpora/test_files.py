"""Damaged archives, paths that are not files, and corpora that change while they are read."""

from __future__ import annotations

import gzip
import lzma
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_program import (
    ANY,
    COMPRESS,
    FORMATS,
    GOOD,
    RECIPE,
    counts_of,
    error_line,
    leftovers,
    many,
    prepare,
    run_program,
)

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda whole: whole[:-5],
    "cut off in the middle": lambda whole: whole[: len(whole) // 2],
    "a wrong checksum": lambda whole: whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:],
    "junk behind it": lambda whole: whole + b"junk",
    "a second one cut off": lambda whole: whole + whole[: len(whole) // 2],
    "not compressed": lambda _: GOOD * 99,
    "empty": lambda _: b"",
}


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("damage", BROKEN)
def test_damaged_archive_is_an_error_even_with_drop(suffix: str, damage: str) -> None:
    FORMATS["jsonl"].write()
    Path("corpus/train.jsonl").unlink()
    packed = {
        ".xz": lambda data: lzma.compress(data),
        ".zst": lambda data: zstd.compress(
            data, options={zstd.CompressionParameter.checksum_flag: 1}
        ),
    }
    whole = packed.get(suffix, gzip.compress)(many())
    Path(f"corpus/train.jsonl{suffix}").write_bytes(BROKEN[damage](whole))
    line = error_line(prepare("jsonl", "data.malformed=drop", ANY))
    assert line.startswith(f"corpus/train.jsonl{suffix} ")
    assert re.search(r"cannot be read to its end \(.+\); get it again|is empty", line)
    assert leftovers() == []


def test_split_left_empty_by_the_rule_names_the_rule() -> None:
    Path("one.jsonl").write_bytes(FORMATS["jsonl"].good[0])
    line = error_line(prepare("jsonl", path="one.jsonl"))
    assert line.startswith(
        "the split validation gives no example (it is empty); a corpus without splits is split"
    )
    assert line.endswith("or set data.path to a folder with one file per split")


def link(to: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(to)


NO_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a FIFO": (os.mkfifo, "is not a regular file"),
    "a link to a FIFO": (
        lambda path: (os.mkfifo("fifo"), path.symlink_to(Path("fifo").resolve())),
        "is not a regular",
    ),
    "a folder": (Path.mkdir, "is not a regular file"),
    "/dev/zero": (link("/dev/zero"), "is not a regular file"),
    "/dev/stdin": (link("/dev/tty"), "is not a regular file"),
    "a circle of links": (
        lambda path: path.symlink_to(path.absolute()),
        "Too many levels of symbolic links",
    ),
    "a link to nowhere": (link("nowhere"), "does not exist"),
    "nothing": (lambda _: None, "does not exist"),
}


@pytest.mark.parametrize("name", ["jsonl", "dailydialog", "parallel"])
@pytest.mark.parametrize("kind", NO_FILES)
def test_path_that_is_not_a_file_neither_hangs_nor_reads(name: str, kind: str) -> None:
    make, message = NO_FILES[kind]
    FORMATS[name].write()
    path = Path("corpus") / FORMATS[name].files[0].format("train")
    path.unlink()
    make(path)
    line = error_line(prepare(name))
    assert line.startswith(f"{path} ")
    assert message in line
    assert leftovers() == []


@pytest.mark.parametrize("kind", [kind for kind in NO_FILES if kind != "a folder"])
def test_data_path_that_is_not_a_file_or_folder(kind: str) -> None:
    make, message = NO_FILES[kind]
    make(Path("data"))
    assert re.search(rf"^data .*{message}", error_line(prepare("jsonl", path="data")))


@pytest.mark.parametrize("verb", ["prepare", "inspect"])
@pytest.mark.parametrize("name", ["jsonl", "dailydialog", "convokit", "taskmaster", "ubuntu"])
def test_impossible_paths(verb: str, name: str) -> None:
    for path in ("x" * 300, "x/" * 3000, '"a\\0b"', "\udcff"):
        corpus = [f"data.corpus={{name: {name}}}", f"data.path={path}"]
        assert error_line(
            run_program(verb, RECIPE, "--json", *corpus, *["--no-tokens"] * (verb == "inspect"))
        )


def test_symbolic_link_to_a_file_is_read() -> None:
    FORMATS["jsonl"].write(folder="elsewhere")
    Path("corpus").mkdir()
    for file in Path("elsewhere").iterdir():
        (Path("corpus") / file.name).symlink_to(file.resolve())
    assert counts_of(prepare("jsonl"))["examples"] == 1
