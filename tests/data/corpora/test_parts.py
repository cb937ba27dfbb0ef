"""The parts of a split hold its dialogues, in order, however small they are."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from dialog.data.corpora.corpus import DivisibleCorpus, ReadableCorpus
from dialog.data.corpora.csv import Csv
from dialog.data.corpora.huggingface import HuggingFace
from dialog.data.corpora.jsonl import JsonLines, Messages
from dialog.data.corpora.text import PlainText
from dialog.data.dialogue import SPLITS

MARK = "\ufeff"
TURNS = [f'{{"turns": ["Hi {n}", "Hello {n} !"]}}\n' for n in range(30)]
LINES = MARK + "".join([*TURNS[:9], "\n", "broken\n", " \r\n", *TURNS[9:], "last"])
CHATS = "".join(
    f'{{"messages": [{{"role": "user", "content": "Hi {n}"}}, {{"role": "assistant", "content":'
    f' "Ho"}}]}}\n'
    for n in range(30)
)
TEXT = "\n\r\n" + "".join(f"Hi {n} !\r\nHello .\n" + "\n" * (1 + n % 3) for n in range(30)) + "Bye"
Make = Callable[[Path], DivisibleCorpus]


def files(folder: Path, names: list[str], content: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        (folder / name).write_bytes(content.encode())
    return folder


def rows(folder: Path, names: list[str]) -> Path:
    folder.mkdir()
    turns = [{"messages": [f"Hi {n}", f"Hello {n}"]} for n in range(17)]
    for name in names:
        parquet.write_table(pyarrow.Table.from_pylist(turns), folder / name, row_group_size=3)
    return folder


CORPORA: dict[str, Make] = {
    "JSON lines": lambda path: JsonLines(files(path, [f"{s}.jsonl" for s in SPLITS], LINES)),
    "one file": lambda path: JsonLines(files(path, ["all.jsonl"], LINES) / "all.jsonl"),
    "chats": lambda path: Messages(files(path, [f"{s}.jsonl" for s in SPLITS], CHATS)),
    "text": lambda path: PlainText(files(path, [f"{s}.txt" for s in SPLITS], TEXT)),
    "texts": lambda path: PlainText(files(path, [f"{n}.txt" for n in range(40)], TEXT)),
    "Parquet": lambda path: HuggingFace(
        rows(path, [*(f"train-0000{n}-of-00002.parquet" for n in (0, 1)), *LATER])
    ),
    "one Parquet": lambda path: HuggingFace(rows(path, ["all.parquet"]) / "all.parquet"),
}
LATER = ["validation.parquet", "test.parquet"]


@pytest.mark.parametrize("size", [1, 100, 1000])
@pytest.mark.parametrize("name", CORPORA)
def test_parts_are_the_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int
) -> None:
    monkeypatch.setattr("dialog.data.reading.parts.SMALLEST_PART", size)
    corpus = CORPORA[name](tmp_path / "corpus")
    assert isinstance(corpus, DivisibleCorpus)
    for split in SPLITS:
        parts = corpus.parts(split)
        whole = list(corpus.dialogues(split))
        divided = [entry for part in parts for entry in corpus.part(split, part)]
        assert divided == whole
        assert [getattr(entry, "place", "") for entry in divided] == [
            getattr(entry, "place", "") for entry in whole
        ]
        assert len(parts) > 5 or size == 1000


def test_large_splits_have_few_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dialog.data.reading.parts.SMALLEST_PART", 1)
    monkeypatch.setattr("dialog.data.reading.parts.MOST_PARTS", 4)
    assert 2 <= len(CORPORA["JSON lines"](tmp_path / "corpus").parts("train")) <= 5
    assert len(CORPORA["one Parquet"](tmp_path / "rows").parts("train")) <= 5


def test_files_that_must_be_read_from_the_start_have_no_parts(tmp_path: Path) -> None:
    files(tmp_path, [f"{split}.json" for split in SPLITS], "[" + ",".join(TURNS) + "]")
    (tmp_path / "array.json").write_text("[" + ",".join(TURNS) + "]")
    (tmp_path / "packed.jsonl.gz").write_bytes(gzip.compress(CHATS.encode()))
    (tmp_path / "table.csv").write_text("dialogue,speaker,text\na,A,Hi\na,B,Ho\n")
    for corpus in (
        JsonLines(tmp_path / "array.json"),
        Messages(tmp_path / "packed.jsonl.gz"),
        Csv(tmp_path / "table.csv"),
    ):
        assert not ReadableCorpus(corpus).parts("train")
