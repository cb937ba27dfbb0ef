"""Archives, lines and dialogues of any size are read in bounded memory."""

from __future__ import annotations

import gzip
import json
import os
import random
import re
import sys
from pathlib import Path

import pyarrow
import pytest
from corpus_program import (
    ANY,
    COMPRESS,
    FORMATS,
    counts_of,
    error_line,
    leftovers,
    run_process,
    turns,
)
from pyarrow import parquet

from dialog.data.dialogue import SPLITS

if sys.version_info >= (3, 14):
    pass
else:
    pass


def bomb(suffix: str, piece: bytes) -> bytes:
    """A gigabyte of repeated bytes, compressed in 64 members."""
    return COMPRESS[suffix](piece * (2**24 // len(piece))) * 64


BOMBS = [
    (".gz", b"\0", "jsonl"),
    pytest.param(".gz", b"\n", "dailydialog", marks=pytest.mark.endurance),
    pytest.param(".gz", b"a\n\n", "text", marks=pytest.mark.endurance),
    pytest.param(".xz", b"\0", "text", marks=pytest.mark.endurance),
    pytest.param(".xz", b"{}\n", "jsonl", marks=pytest.mark.endurance),
    pytest.param(".zst", b"\n", "text", marks=pytest.mark.endurance),
]


@pytest.mark.parametrize(("suffix", "piece", "name"), BOMBS)
def test_decompression_bomb_is_an_error(
    suffix: str, piece: bytes, name: str, baseline: int
) -> None:
    FORMATS[name].write()
    file = Path("corpus") / FORMATS[name].files[0].format("train")
    file.unlink()
    file.with_name(file.name + suffix).write_bytes(bomb(suffix, piece))
    done, seconds, peak = run_process(
        f"data.corpus={{{FORMATS[name].corpus}}}", "data.malformed=drop", ANY
    )
    assert re.search(rf"^{file}{suffix} gives more than 300 times its size", error_line(done))
    assert seconds < 5
    assert peak - baseline < 2**27
    assert leftovers() == []


def test_endless_line_is_an_error(baseline: int) -> None:
    FORMATS["jsonl"].write()
    os.truncate("corpus/train.jsonl", 2**28)
    done, _, peak = run_process("data.corpus={name: jsonl}", "data.malformed=drop", ANY)
    assert error_line(done).startswith("corpus/train.jsonl: a line is longer than 67,108,864 bytes")
    assert peak - baseline < 2**28


@pytest.mark.endurance
def test_turns_of_a_megabyte(baseline: int) -> None:
    with Path("lines").open("wb") as file:
        for n in range(100):
            file.write(turns(f"{n} " + "b" * 2**20, "a" * 2**20))
    FORMATS["jsonl"].write()
    Path("lines").replace("corpus/train.jsonl")
    done, _, peak = run_process("data.corpus={name: jsonl}")
    assert counts_of(done)["cut: characters"] == 200
    assert peak - baseline < 150 * 2**20


@pytest.mark.endurance
def test_dialogues_of_many_speakers(baseline: int) -> None:
    with Path("lines").open("w") as file:
        for n in range(200):
            each = ", ".join(f'{{"speaker": "{n}-{k}", "text": "a"}}' for k in range(1000))
            file.write(f'{{"turns": [{each}]}}\n')
    FORMATS["jsonl"].write()
    Path("lines").replace("corpus/train.jsonl")
    done, _, peak = run_process("data.corpus={name: jsonl}")
    assert counts_of(done)["turns"] == 200_000
    assert peak - baseline < 200 * 2**20


@pytest.mark.endurance
def test_megabytes_of_metadata(baseline: int) -> None:
    FORMATS["jsonl"].write()
    with Path("corpus/train.jsonl").open("wb") as file:
        for n in range(200):
            file.write(turns("Hi", "Hello", meta={f"{n}": ["a" * 2**20]}))
    done, _, peak = run_process("data.corpus={name: jsonl}")
    assert counts_of(done)["dialogues"] == 200
    assert peak - baseline < 150 * 2**20


@pytest.mark.endurance
def test_dialogue_of_megabyte_lines(baseline: int) -> None:
    FORMATS["text"].write()
    with Path("corpus/train.txt").open("ab") as file:
        for n in range(200):
            file.write(f"{n} ".encode() + b"a" * 2**20 + b"\n")
    done, _, peak = run_process("data.corpus={name: text}", "data.malformed=drop", ANY)
    assert counts_of(done)["dropped dialogues: malformed"] == 1
    assert peak - baseline < 200 * 2**20


def write_parquet(train: list[list[str]], **settings: object) -> int:
    """Write a folder of Parquet files; return the size of the training file."""
    Path("corpus").mkdir()
    for split in SPLITS:
        rows = train if split == "train" else [["Hi", "Hello"]]
        parquet.write_table(
            pyarrow.table({"messages": rows}), f"corpus/{split}.parquet", **settings
        )
    return Path("corpus/train.parquet").stat().st_size


HUB = "data.corpus={name: huggingface}"


@pytest.mark.endurance
def test_parquet_with_megabyte_turns(baseline: int) -> None:
    noise = "".join(random.Random(1).choices("abcdefghijklmnop", k=2**22))
    write_parquet([["a" * 2**20] * 2] * 200 + [[noise, "Hello"]])
    done, _, peak = run_process(HUB)
    assert counts_of(done)["cut: characters"] == 401
    assert peak - baseline < 600 * 2**20


@pytest.mark.endurance
@pytest.mark.parametrize(
    "settings", [{"use_dictionary": True}, {"use_dictionary": False, "compression": "zstd"}]
)
@pytest.mark.parametrize("rows", [1, 200])
def test_parquet_bomb_is_an_error(settings: dict[str, object], rows: int, baseline: int) -> None:
    size = write_parquet([["a" * 2**20] * (400 // rows)] * rows, **settings)
    done, _, peak = run_process(HUB, "data.malformed=drop", ANY)
    assert 300 * size < 400 * 2**20, "the file must be a bomb"
    assert error_line(done).startswith(
        "corpus/train.parquet gives more than 300 times its size; give it as JSON lines"
    )
    assert peak - baseline < 2**27


@pytest.mark.endurance
def test_huge_parquet_row_is_an_error(baseline: int) -> None:
    noise = "".join(random.Random(1).choices("abcdefghijklmnop", k=3 * 2**20))
    write_parquet(
        [["Hi", "Hello"], ["a" * 2**20] * 300, [noise, noise]], dictionary_pagesize_limit=2**24
    )
    done, _, peak = run_process(HUB, "data.malformed=drop", ANY)
    assert error_line(done).startswith(
        "corpus/train.parquet:2: a row of more than 67,108,864 bytes"
    )
    assert peak - baseline < 2**27


@pytest.mark.endurance
def test_small_archive_of_one_large_json(baseline: int) -> None:
    said = [
        [{"speaker": who, "text": f"{who} {n}"} for who in ("user", "assistant")]
        for n in range(1500)  # each with lists that take 200 KB once they are read
    ]
    whole = [
        {"conversation_id": f"{n}", "utterances": each, "more": [[]] * 3000}
        for n, each in enumerate(said)
    ]
    Path("corpus").mkdir()
    Path("corpus/data.json.gz").write_bytes(gzip.compress(json.dumps(whole).encode()))
    done, _, peak = run_process("data.corpus={name: taskmaster}")
    assert 1000 < counts_of(done)["dialogues"] < 1400
    assert peak - baseline < 150 * 2**20
