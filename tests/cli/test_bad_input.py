"""Broken, hostile and odd input through the command line: one line that says where, or counts that add up; no hang."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import cache
from pathlib import Path
from typing import IO, NamedTuple

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from dialog.cli import main
from dialog.config.compose import Composed, compose
from dialog.data.dialogue import SPLITS
from dialog.data.store.store import Store
from dialog.data.tokenizers.tokenizer import SPECIAL_TOKENS
from dialog.report.terminal import one_line

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd.compress}
RECIPE = "quickstart/transformer"
PATIENCE = 60
"""Seconds after which a command counts as one that hangs."""


class Done(NamedTuple):
    code: int
    out: str
    err: str


@contextmanager
def patience() -> Iterator[None]:
    """What hangs fails."""

    def late(*_: object) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@cache
def composed(recipe: str, overrides: tuple[str, ...]) -> Composed:
    """Each recipe once."""
    return compose(recipe, overrides)


def said(*arguments: str) -> Done:
    """The program in this process."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err), patience():
        patch.setattr(sys, "argv", ["dialog", *arguments])
        patch.setattr("dialog.cli.prepare.compose", composed)
        patch.setattr(os, "fsync", lambda _: None)
        with pytest.raises(SystemExit) as ended:
            main()
    return Done(int(ended.value.code or 0), out.getvalue(), err.getvalue())


def prepared(format: str, *arguments: str, path: str = "corpus") -> Done:
    corpus = FORMATS[format].corpus if format in FORMATS else format
    return said("prepare", RECIPE, "--json", f"data.corpus={{{corpus}}}", f"data.path={path}", *arguments)


def refused(done: Done) -> str:
    """The one line of something that the user can mend."""
    *progress, last = done.err.rstrip("\n").split("\n")
    assert done.code == 2, done
    assert done.out == ""
    looked = {f"inspecting {split}" for split in SPLITS}
    assert set(progress) <= {"learning the tokenizer", "training the tokenizer", "tokenising", "joining", *looked}
    assert last.startswith("dialog: ")
    assert one_line(last) == last
    return last.removeprefix("dialog: ")


def counted(done: Done, split: str = "train") -> dict[str, int]:
    """The counts of a split, which add up."""
    assert done.code == 0, done.err
    counts = json.loads(done.out)["splits"][split]
    for what in ("dialogues", "turns"):
        dropped = sum(number for key, number in counts.items() if key.startswith(f"dropped {what}: "))
        assert counts[what] + dropped == counts[f"{what} read"]
    return dict(counts)


def leftovers(cache: str = "cache") -> list[Path]:
    return [*Path(cache).iterdir()]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of the user's own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DIALOG_CACHE", "cache")
    for name in ("DIALOG_DATA", "DIALOG_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "cache").mkdir()
    return tmp_path


# ------------------------------------------------------------------ formats


class Format(NamedTuple):
    """How a corpus is chosen, the files of each split, what a good one holds."""

    corpus: str
    files: Sequence[str]
    good: Sequence[bytes]
    splits: Mapping[str, str] = {split: split for split in SPLITS}

    def lay(self, *train: bytes, folder: str = "corpus") -> None:
        """A folder whose training split is this, and whose others are good."""
        for split, part in self.splits.items():
            for name, good, bad in zip(self.files, self.good, train or self.good, strict=True):
                path = Path(folder) / name.format(part)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(bad if split == "train" else good)


VALID = {"train": "train", "validation": "valid", "test": "test"}
FORMATS = {
    "jsonl": Format("name: jsonl", ["{}.jsonl"], [b'{"turns": ["Hi", "Hello"]}\n']),
    "dailydialog": Format("name: dailydialog", ["{0}/dialogues_{0}.txt"], [b"Hi __eou__ Hello __eou__\n"]),
    "text": Format("name: text", ["{}.txt"], [b"Hi\nHello\n\n"]),
    "csv": Format("name: csv", ["{}.csv"], [b"dialogue,speaker,text\na,A,Hi\na,B,Hello\n"]),
    "messages": Format(
        "name: messages",
        ["{}.jsonl"],
        [b'{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]}\n'],
    ),
    "parallel": Format(
        "name: parallel, source: de, target: en, validation: validation", ["{}.de", "{}.en"], [b"Hallo\n", b"Hello\n"]
    ),
    "parlai": Format("name: parlai", ["{}.txt"], [b"text:Hi\tlabels:Hello\tepisode_done:True\n"], VALID),
    "personachat": Format("name: personachat", ["{}_self_original.txt"], [b"1 Hi\tHello\n"], VALID),
}


def convokit(*strange: dict[str, object]) -> dict[str, bytes]:
    """Sixty conversations, some of which fall to each split, and then these utterances."""
    plain = [
        {"id": f"{n}{end}", "conversation_id": f"{n}", "reply-to": above, "speaker": "Anna", "text": f"{end} {n}"}
        for n in range(60)
        for end, above in (("a", None), ("b", f"{n}a"))
    ]
    own = [{"conversation_id": "s", "reply-to": None, "speaker": "Bo", "text": "x", **each} for each in strange]
    return {
        "utterances.jsonl": b"".join(json.dumps(each).encode() + b"\n" for each in (*plain, *own)),
        "conversations.json": b"{}\n",
    }


def turns(*texts: str, **fields: object) -> bytes:
    return json.dumps({"turns": texts, **fields}).encode() + b"\n"


GOOD = turns("Hi", "Hello")

# ------------------------------------------------------------------ refused with file and line


class Refused(NamedTuple):
    """Files of the training split in a format, what else is said on the command line, and the answer."""

    id: str
    format: str
    train: tuple[bytes, ...]
    message: str
    arguments: tuple[str, ...] = ()


def json_line(what: str, line: bytes, message: str) -> Refused:
    return Refused(what, "jsonl", (GOOD + line + GOOD,), rf"corpus/train\.jsonl:2: {message}")


NOTHING = [
    Refused(f"empty file, {name}", name, tuple(b"" for _ in form.files), r"^corpus/train\S* is empty; it should hold")
    for name, form in FORMATS.items()
]
BLANK = [
    Refused(f"only blank lines, {name}", name, tuple(b"\n \n\r\n" for _ in FORMATS[name].files), message)
    for name, message in {
        "jsonl": r"^corpus/train\.jsonl holds no dialogue; it should hold",
        "dailydialog": r"^the split train gives no example \(.*dialogues: empty 3.*; first: corpus/train/\S+:1: no t",
        "text": r"^corpus/train\.txt holds no dialogue; it should hold",
        "csv": r"^corpus/train\.csv:1: no column 'dialogue'",
        "messages": r"^corpus/train\.jsonl holds no dialogue; it should hold",
        "parallel": r"^the split train gives no example \(.*dialogues: empty 3.*; first: corpus/train\.de:1: 2 of 2",
        "parlai": r"^corpus/train\.txt holds no dialogue; it should hold",
        "personachat": r"^corpus/train\S+\.txt:1: not line 1 of its dialogue",
    }.items()
]
ENCODINGS = [
    Refused(
        "not UTF-8, jsonl", "jsonl", (GOOD + turns("a", "b").replace(b"a", b"\xff"),), r"train\.jsonl:2: byte 13 of"
    ),
    Refused("not UTF-8, dailydialog", "dailydialog", (b"a __eou__ caf\xe9 __eou__\n",), r"_train\.txt:1: byte 14 of"),
    Refused("not UTF-8, text", "text", (b"a\nb\n\nc\nd\xe9\n",), r"train\.txt:5: byte 2 of the line is not UTF-8"),
    Refused("not UTF-8, csv", "csv", (FORMATS["csv"].good[0] + b"b,A,\xe9\n",), r"train\.csv:4: byte 5 of the line"),
    Refused("not UTF-8, messages", "messages", (b'{"messages": "\xe9"}\n',), r"train\.jsonl:1: byte 15 of the line"),
    Refused("not UTF-8, parallel", "parallel", (b"a\nb\n", b"a\n\xe9\n"), r"train\.en:2: byte 1 of the line is not"),
    Refused("not UTF-8, parlai", "parlai", (b"text:\xe9\tlabels:b\n",), r"train\.txt:1: byte 6 of the line is not"),
    Refused("not UTF-8, personachat", "personachat", (b"1 a\tb\n2 \xe9\tc\n",), r"original\.txt:2: byte 3 of the line"),
    Refused("UTF-16", "text", ("Hi\nHello\n".encode("utf-16"),), r"train\.txt is UTF-16; convert it to UTF-8: iconv"),
    Refused("no such encoding", "text", (b"a\nb\n",), "no encoding 'utf-9'", ("data.corpus.encoding='utf-9'",)),
    Refused("no encoding of text", "csv", (b"a\nb\n",), "no encoding 'hex'", ("data.corpus.encoding=hex",)),
    Refused(
        "no encoding of lines", "csv", (b"a\nb\n",), "no encoding 'undefined'", ("data.corpus.encoding=undefined",)
    ),
    Refused("lone carriage returns, jsonl", "jsonl", (GOOD.replace(b"\n", b"\r") * 2,), r"train\.jsonl:1: not JSON"),
    Refused("lone carriage returns, text", "text", (b"a\rb\r",), "the split train gives no example .*single turn 1"),
]
SEPARATORS = [
    Refused("no mark at the end", "dailydialog", (b"a __eou__ b\n",), r"_train\.txt:1: text after the last __eou__"),
    Refused("tabs for marks", "dailydialog", (b"a\tb\n",), r"_train\.txt:1: text after the last __eou__"),
    Refused("too few columns", "csv", (FORMATS["csv"].good[0] + b"b,A\n",), r"train\.csv:4: 2 columns, but 3 names"),
    Refused("too many columns", "csv", (FORMATS["csv"].good[0] + b"b,A,x,y\n",), r"train\.csv:4: 4 columns, but 3"),
    Refused("bars for commas", "csv", (b"dialogue|speaker|text\na|A|Hi\n",), r"train\.csv:1: no column 'dialogue'"),
    Refused("open quote", "csv", (FORMATS["csv"].good[0] + b'b,A,"x\n' * 3,), r"train\.csv:\d: .*; correct the row"),
    Refused("no tab", "personachat", (b"1 a b\n",), r"original\.txt:1: no tab"),
    Refused("numbers that jump", "personachat", (b"1 a\tb\n3 a\tb\n",), r"original\.txt:2: not line 2 of its"),
    Refused("no labels", "parlai", (b"text:a\tepisode_done:True\n",), r"train\.txt:1: no text or no labels"),
    Refused("no speaker", "text", (b"Anna: Hi\nHello\n",), r"train\.txt:2: no speaker", ("data.corpus.speakers=true",)),
    Refused("a line too many", "parallel", (b"a\nb\n", b"a\nb\nc\n"), r"train\.de has 2 lines, but corpus/train\.en 3"),
    Refused("a line too few", "parallel", (b"a\n\nb\n", b"a\nb\n"), r"train\.de has 3 lines, but corpus/train\.en 2"),
]
SPLITTERS = [
    Refused(
        f"U+{ord(sign):04X} for a line end",
        "parallel",
        (f"a{sign}b\nc\n".encode(), b"a\nb\nc\n"),
        "train.de has 2 lines, but .* 3",
    )
    for sign in "\u2028\u2029\u0085\x0b\x0c\x1c\x1d\x1e"
]
JSON = [
    json_line("cut off", b'{"turns": ["a", "b"\n', "not JSON at character"),
    json_line("text behind it", GOOD[:-1] + b" x\n", "not JSON at character"),
    json_line("raw control character", b'{"turns": ["a\x01", "b"]}\n', "not JSON at character"),
    json_line("NaN", b'{"turns": ["a", "b"], "meta": {"n": NaN}}\n', ".*NaN is not a JSON number"),
    json_line("-Infinity", b'{"turns": ["a", "b"], "meta": {"n": -Infinity}}\n', ".*-Infinity is not a JSON"),
    json_line("1e999", b'{"turns": ["a", "b"], "meta": {"n": 1e999}}\n', ".*1e999 is too large"),
    json_line("5,000 digits", b'{"turns": ["a", "b"], "meta": {"n": ' + b"9" * 5000 + b"}}\n", "not JSON that can"),
    json_line("depth 100,000", b'{"turns": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n", "not JSON that can be read"),
    json_line("depth of objects", b'{"turns":' * 100_000 + b"\n", "not JSON"),
    json_line("duplicate key", b'{"turns": ["a", "b"], "turns": ["c", "d"]}\n', ".*'turns' is repeated"),
    json_line("an array", b'["a", "b"]\n', 'no "turns"'),
    json_line("a number", b"3\n", 'no "turns"'),
    json_line("null", b"null\n", 'no "turns"'),
    json_line("turns a string", b'{"turns": "ab"}\n', 'no "turns"'),
    json_line("a turn a number", b'{"turns": ["a", 3]}\n', "turn 2 has no"),
    json_line("a text a list", b'{"turns": ["a", {"text": ["b"]}]}\n', 'turn 2: "text" is list'),
    json_line("a speaker a number", b'{"turns": ["a", {"text": "b", "speaker": 1}]}\n', 'turn 2: "speaker" is int'),
    json_line("an empty speaker", b'{"turns": ["a", {"text": "b", "speaker": ""}]}\n', 'turn 2: "speaker" is empty'),
    json_line("an id a fraction", turns("a", "b", id=7.5), '"id" is float'),
    json_line("half a character", b'{"turns": ["a", "\\ud83d"]}\n', r".*half a character \(\\ud83d\)"),
    json_line("the other half", b'{"turns": ["a", {"text": "b", "speaker": "\\ude00"}]}\n', ".*half a character"),
    json_line("half a character in UTF-8", b'{"turns": ["a", "\xed\xa0\xbd"]}\n', "byte 18 of the line is not UTF-8"),
    Refused(
        "a role a number", "messages", (b'{"messages": [{"role": 1, "content": "a"}]}\n',), r"jsonl:1: message 1 is"
    ),
    Refused("no role", "messages", (b'{"messages": [{"content": "a"}]}\n',), r"jsonl:1: .*'role'"),
    Refused(
        "null said", "messages", (b'{"messages": [{"role": "user", "content": null}]}\n',), "its content is NoneType"
    ),
    Refused(
        "half a character, messages",
        "messages",
        (FORMATS["messages"].good[0].replace(b"Hi", b"\\udc00"),),
        ":1: .*half",
    ),
]
IDS = [
    Refused(
        "an id twice",
        "jsonl",
        (turns("a", "b", id="x") + GOOD + turns("a", "c", id="x"),),
        r"^corpus/train\.jsonl:3: the id 'x' occurs twice in train, with other text at corpus/train\.jsonl:1; give",
    ),
    Refused(
        "an id that comes again", "csv", (FORMATS["csv"].good[0] + b"b,A,x\nb,B,y\na,A,z\n",), r"csv:6: .*has earlier"
    ),
    Refused("a share that is none", "jsonl", (GOOD,), "data.max_dropped is 2", ("data.max_dropped=2",)),
    Refused(
        "another mode", "jsonl", (GOOD,), "data.malformed is 'ignore'; give refuse or drop", ("data.malformed=ignore",)
    ),
]


@pytest.mark.parametrize(
    "row", [*NOTHING, *BLANK, *ENCODINGS, *SEPARATORS, *SPLITTERS, *JSON, *IDS], ids=lambda row: row.id
)
def test_it_is_refused_with_its_place_and_leaves_nothing(row: Refused) -> None:
    FORMATS[row.format].lay(*row.train)
    line = refused(prepared(row.format, *row.arguments))
    assert re.search(row.message, line), line
    assert leftovers() == []


# ------------------------------------------------------------------ counted


class Counted(NamedTuple):
    """Files of the training split in a format, what else is said on the command line, and counts of the answer."""

    id: str
    format: str
    train: tuple[bytes, ...]
    counts: dict[str, int]
    arguments: tuple[str, ...] = ()


ANY = "data.max_dropped=1"
WHITE = ("", " ", "\t", "\u00a0", "\u3000", "\u2003", "\u0085", "\u2028", "\x1c\x1f", " \u00a0\u3000 ")
GAPS = turns("Hi", *WHITE, "Hello")
EMPTY = [
    Counted(
        "empty turns, jsonl",
        "jsonl",
        (GAPS,),
        {"turns read": 12, "turns": 2, "dropped turns: empty": 10, "examples": 1},
    ),
    Counted(
        "nothing but empty turns",
        "jsonl",
        (GOOD + turns(*WHITE) + turns(),),
        {"dialogues": 1, "dropped dialogues: empty": 2, "dropped turns: empty": 10},
    ),
    Counted(
        "empty turns, dailydialog",
        "dailydialog",
        ("Hi __eou__ __eou__ \u00a0 __eou__\u3000__eou__ Hello __eou__\n\n".encode(),),
        {"turns read": 5, "dropped turns: empty": 3, "dropped dialogues: empty": 1, "examples": 1},
    ),
    Counted(
        "empty turns, csv",
        "csv",
        ('dialogue,speaker,text\na,A,Hi\na,B,\na,A,"\u00a0"\na,B,Hello\n'.encode(),),
        {"turns read": 4, "dropped turns: empty": 2, "examples": 1},
    ),
    Counted(
        "empty turns, messages",
        "messages",
        (FORMATS["messages"].good[0].replace(b"[{", b'[{"role": "user", "content": "\\u3000"}, {'),),
        {"turns read": 3, "dropped turns: empty": 1, "examples": 1},
    ),
    Counted(
        "empty turns, parallel",
        "parallel",
        ("a\n\n\u00a0\n".encode(), b"a\nb\n\n"),
        {
            "dialogues read": 3,
            "dropped turns: empty": 3,
            "dropped dialogues: empty": 1,
            "dropped turns: single turn": 1,
        },
    ),
    Counted(
        "empty turns, parlai",
        "parlai",
        (b"text:\tlabels:b\ntext:a\tlabels: \tepisode_done:True\n",),
        {"turns read": 4, "dropped turns: empty": 2, "examples": 1},
    ),
    Counted(
        "empty turns, personachat",
        "personachat",
        (b"1 your persona: i sing .\n2 __SILENCE__\tHi\n3  \tHello\n",),
        {"turns read": 3, "dropped turns: empty": 1, "turns": 2, "facts": 1},
    ),
    Counted(
        "white space as far as it is cut",
        "jsonl",
        (turns("Hi", " " * 20 + "Hello", "Well"),),
        {"turns": 2, "dropped turns: empty": 1},
        ("data.max_turn_characters=20", "data.tokenizer={name: word}"),
    ),
]
SINGLE = {
    "jsonl": (GOOD + turns("alone"),),
    "dailydialog": (b"Hi __eou__ Hello __eou__\nalone __eou__\n",),
    "text": (b"Hi\nHello\n\n\nalone\n",),
    "csv": (FORMATS["csv"].good[0] + b"b,A,alone\n",),
    "messages": (FORMATS["messages"].good[0] + b'{"messages": [{"role": "user", "content": "alone"}]}\n',),
    "parallel": (b"Hallo\nallein\n", b"Hello\n \n"),
    "parlai": (FORMATS["parlai"].good[0] + b"text:\tlabels:alone\n",),
    "personachat": (b"1 Hi\tHello\n1 __SILENCE__\talone\n",),
}
SINGLES = [
    Counted(
        f"single turn, {name}",
        name,
        train,
        {"dialogues": 1, "dropped dialogues: single turn": 1, "dropped turns: single turn": 1, "examples": 1},
    )
    for name, train in SINGLE.items()
]
DROPPED = [
    Counted(
        f"malformed, {name}",
        name,
        train,
        {"dialogues read": read, "dialogues": read - 1, "dropped dialogues: malformed": 1},
        ("data.malformed=drop",),
    )
    for name, read, train in (
        ("jsonl", 2, (GOOD + b"{\n",)),
        ("dailydialog", 3, (FORMATS["dailydialog"].good[0] + b"a\nb __eou__ c __eou__\n",)),
        ("text", 2, (b"Hi\nHello\n\na\n\xff\n",)),
        ("csv", 2, (FORMATS["csv"].good[0] + b"b,A,x\nb,B\nb,A,y\n",)),
        ("messages", 2, (FORMATS["messages"].good[0] + b'{"messages": [{"role": "tool", "content": ""}]}\n',)),
        ("parallel", 2, (b"a\nb\n", b"a\n\xff\n")),
        ("parlai", 2, (FORMATS["parlai"].good[0] + b"text:a\n",)),
        ("personachat", 2, (b"1 a\tb\n1 a\n",)),
    )
]
TWICE = b'{"turns": [{"speaker": "A", "text": "a"}, {"speaker": "A", "text": "b"}, {"speaker": "B", "text": "c"}]}'
SPEAKERS = [
    Counted(
        "no speaker and null", "jsonl", (b'{"turns": [{"speaker": null, "text": "a"}, {"text": "b"}]}\n',), {"turns": 2}
    ),
    Counted(
        "a speaker twice in a row",
        "jsonl",
        (TWICE,),
        {"turns": 3, "examples": 2},
    ),
    Counted(
        "a speaker twice in a row, merged",
        "jsonl",
        (TWICE,),
        {"turns read": 3, "turns": 2, "dropped turns: merged": 1, "examples": 1, "bytes": 4},
        ("data.merge_turns=true",),
    ),
    Counted(
        "an empty turn between two of a speaker",
        "jsonl",
        (turns("a", " ", "b", "c"),),
        {"turns read": 4, "turns": 2, "dropped turns: merged": 1, "dropped turns: empty": 1, "bytes": 4},
        ("data.merge_turns=true",),
    ),
    Counted(
        "a responder who never speaks",
        "jsonl",
        (GOOD + b'{"turns": [{"speaker": "C", "text": "a"}, {"speaker": "C", "text": "b"}]}\n',),
        {
            "dialogues": 1,
            "dropped dialogues: no turn of the responder": 1,
            "dropped turns: no turn of the responder": 2,
        },
        ("data.responder=B",),
    ),
]
TEXT = [
    Counted("byte order mark", "jsonl", (b"\xef\xbb\xbf" + GOOD,), {"bytes": 7}),
    Counted("byte order mark, text", "text", (b"\xef\xbb\xbfHi\nHello\n",), {"bytes": 7}),
    Counted("byte order mark, csv", "csv", (b"\xef\xbb\xbf" + FORMATS["csv"].good[0],), {"bytes": 7}),
    Counted("byte order mark, parallel", "parallel", (b"\xef\xbb\xbfHi\n", b"Hello\n"), {"bytes": 7}),
    *(
        Counted(
            f"CRLF, {name}",
            name,
            tuple(each.replace(b"\n", b"\r\n") for each in form.good),
            {"examples": 1, "bytes": size},
        )
        for name, form in FORMATS.items()
        for size in [sum(map(len, ("Hallo" if name == "parallel" else "Hi", "Hello")))]
    ),
    *(
        Counted(f"no line end at the end, {name}", name, tuple(each.rstrip() for each in form.good), {"examples": 1})
        for name, form in FORMATS.items()
    ),
    Counted("lone carriage return inside", "text", (b"a\rb\nc\n",), {"turns": 2, "bytes": 4}),
    Counted(
        "separators of Unicode are text",
        "parallel",
        ("a\u2028b\u0085c\x0bd\x1ce\n".encode(), "1\u2029\x0c\x1d\x1e2\n".encode()),
        {"turns": 2, "examples": 1},
    ),
    Counted("NUL and C0", "jsonl", (turns("\0", "a\0b\x01\x1b[2J"),), {"turns": 2, "examples": 1}),
    Counted("NUL in a table", "csv", (b"dialogue,speaker,text\na,A,a\0b\na,B,\0\n",), {"turns": 2}),
    Counted("two halves are a character", "jsonl", (b'{"turns": ["\\ud83d\\ude00", "a"]}\n',), {"bytes": 5}),
    Counted(
        "bytes replaced",
        "text",
        (b"a\xff\nb\nc\xe9\xff\n",),
        {"replaced characters": 2, "turns": 3},
        ("data.corpus.encoding='utf-8:replace'",),
    ),
    Counted(
        "ISO-8859-1",
        "csv",
        (b"dialogue,speaker,text\na,A,caf\xe9\na,B,x\n",),
        {"bytes": 6},
        ("data.corpus.encoding=iso-8859-1",),
    ),
    Counted("a turn of a megabyte", "jsonl", (turns("a", "b" * 2**20),), {"cut: characters": 1, "bytes": 10_001}),
    Counted(
        "a stray quote before others",
        "csv",
        (FORMATS["csv"].good[0] + b'b,A,x\nb,B,"y\nc,A,z\nc,B,"w"\nd,A,v\nd,B,so\n',),
        {"dialogues read": 4, "dialogues": 3, "dropped dialogues: malformed": 1},
        ("data.malformed=drop",),
    ),
    Counted(
        "a turn of a megabyte, csv",
        "csv",
        (b"dialogue,speaker,text\na,A,a\na,B," + b"b" * 2**20 + b"\n",),
        {"cut: characters": 1, "bytes": 10_001},
    ),
    Counted("a turn of a megabyte, text", "text", (b"a\n" + b"b " * 2**19,), {"cut: characters": 1, "bytes": 10_001}),
    Counted(
        "a fact of a megabyte",
        "messages",
        (FORMATS["messages"].good[0].replace(b"[{", b'[{"role": "system", "content": "' + b"b" * 2**20 + b'"}, {'),),
        {"cut: characters": 1, "facts": 1},
    ),
    Counted("an id twice, of the same words", "jsonl", (turns("a", "b", id="x") * 3,), {"dialogues": 3, "examples": 3}),
    Counted("in every split", "jsonl", (GOOD,), {"dialogues": 1}),
]


@pytest.mark.parametrize("row", [*EMPTY, *SINGLES, *DROPPED, *SPEAKERS, *TEXT], ids=lambda row: row.id)
def test_it_is_counted_and_the_counts_add_up(row: Counted) -> None:
    FORMATS[row.format].lay(*row.train)
    counts = counted(prepared(row.format, ANY, *row.arguments))
    assert {key: counts.get(key, 0) for key in row.counts} == row.counts
    assert counts["tokens"] >= counts["turns"]


@pytest.mark.parametrize("name", FORMATS)
def test_more_than_the_share_is_refused_with_the_first_place(name: str) -> None:
    (row,) = (row for row in DROPPED if row.format == name)
    FORMATS[name].lay(*row.train)
    read = row.counts["dialogues read"]
    for share, code in ((0.99 / read, 2), (1 / read, 0)):
        done = prepared(name, "data.malformed=drop", f"data.max_dropped={share}")
        assert done.code == code, done.err
        if code:
            line = refused(done)
            assert f"train: 1 of {read} dialogues are malformed or empty, more than data.max_dropped" in line
            assert re.search(r"; first: corpus/train\S*:\d", line)
    assert re.search(r"^train: corpus/train\S*:\d", said(*row_arguments(name)).out, re.MULTILINE)
    again = prepared(name, "data.malformed=drop")
    assert "more than data.max_dropped=0.01 allows" in refused(again), (
        "what is prepared already is not held to the share"
    )


def row_arguments(name: str) -> list[str]:
    return [
        "prepare",
        RECIPE,
        f"data.corpus={{{FORMATS[name].corpus}}}",
        "data.path=corpus",
        "data.malformed=drop",
        ANY,
    ]


def test_empty_turns_above_the_share_are_refused_with_the_first_place() -> None:
    FORMATS["jsonl"].lay(GOOD * 3 + GAPS + GAPS)
    line = refused(prepared("jsonl"))
    assert line.startswith(
        "train: 20 of 30 turns are empty, more than data.max_dropped=0.01 allows; fix them or raise it"
    )
    assert line.endswith("; first: corpus/train.jsonl:4: 10 of 12 turns are empty")


# ------------------------------------------------------------------ replies in trees

SELF = {"id": "s", "reply-to": "s"}
TREES = [
    (
        "a parent that is missing",
        [{"id": "s", "reply-to": "gone"}, {"id": "t", "reply-to": "s"}],
        1,
        "1 reply to themsel",
    ),
    (
        "a parent of its own",
        [SELF, {"id": "t", "reply-to": "s"}],
        1,
        "0 of 2 utterances are not in .* 1 reply to themsel",
    ),
    (
        "branches",
        [{"id": "s"}, *({"id": f"t{n}", "reply-to": "s"} for n in range(4))],
        1,
        "3 of 5 utterances are not in",
    ),
    ("a deep chain", [{"id": f"s{n}", "reply-to": f"s{n - 1}" if n else None} for n in range(5000)], 1, ""),
]
NO_TREES: list[tuple[str, list[dict[str, object]], str]] = [
    (
        "a circle",
        [{"id": "s", "reply-to": "u"}, {"id": "t", "reply-to": "s"}, {"id": "u", "reply-to": "t"}],
        ":121: .*circle",
    ),
    ("an id twice", [{"id": "s"}, {"id": "s"}], ":121: two utterances"),
    ("a null speaker", [{"id": "s", "speaker": None}], ":121: its speaker is None, not text"),
    ("a speaker of another type", [{"id": "s"}, {"id": "t", "speaker": {"id": "Bo"}}], ":122: its speaker is"),
    ("a text that is null", [{"id": "s", "text": None}], ":121: its text is None"),
    ("half a character", [{"id": "s", "text": "\ud83d"}, {"id": "t"}], ":121: holds half a character"),
]


def lay_convokit(*strange: dict[str, object]) -> None:
    Path("corpus").mkdir()
    for name, content in convokit(*strange).items():
        (Path("corpus") / name).write_bytes(content)


@pytest.mark.parametrize(("strange", "more", "remark"), [row[1:] for row in TREES], ids=[row[0] for row in TREES])
def test_a_tree_of_replies_is_read(strange: list[dict[str, object]], more: int, remark: str) -> None:
    lay_convokit(*strange)
    done = prepared("name: convokit", ANY)
    assert sum(counted(done, split)["dialogues read"] for split in SPLITS) == 60 + more
    remarks = json.loads(done.out)["remarks"].values()
    found = [said for kinds in remarks for said in kinds.get("warnings", ())]
    assert bool(found) == bool(remark)
    assert all(re.search(remark, said) and said.startswith("corpus/utterances.jsonl:121: ") for said in found)


@pytest.mark.parametrize(("strange", "message"), [row[1:] for row in NO_TREES], ids=[row[0] for row in NO_TREES])
def test_what_is_no_tree_is_refused(strange: list[dict[str, object]], message: str) -> None:
    lay_convokit(*strange)
    assert re.search(r"^corpus/utterances\.jsonl" + message, refused(prepared("name: convokit")))
    counts = [counted(prepared("name: convokit", "data.malformed=drop", ANY), split) for split in SPLITS]
    assert sum(each.get("dropped dialogues: malformed", 0) for each in counts) == 1


# ------------------------------------------------------------------ text goes through unchanged

ODD = {
    "right to left": "שלום עולם! مرحبا",
    "bidirectional controls": "a\u202eb\u202c \u2066c\u2069 \u200f",
    "joined emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽",
    "zero width": "a\u200bb\u200cc\u2060d\ufeffe",
    "combining": "e\u0301 n\u0303 \u1100\u1161\u11a8 q\u0307\u0323",
    "controls": "\0\x01\x1b[2J\x7f\x9b31m",
    "separators": "a\u2028b\u0085c\x0bd\x1ce",
    "noncharacters": "\ufffe\uffff\U0010ffff \ue000",
    "special tokens": " ".join((*SPECIAL_TOKENS, "__SILENCE__", "__unk__", "[CLS]", "<|endoftext|>")),
    "special tokens together": "".join(SPECIAL_TOKENS * 3),
}


@pytest.mark.parametrize(
    "tokenizer", ["{name: byte_bpe, vocabulary: 300}", "{name: unigram, vocabulary: 300}", "{name: characters}"]
)
def test_text_comes_back_from_the_prepared_data_and_is_no_special_token(tokenizer: str) -> None:
    FORMATS["jsonl"].lay(turns("Hi", *ODD.values()))
    done = prepared("jsonl", f"data.tokenizer={tokenizer}", "data.max_target=1000", "data.max_source=1000")
    assert counted(done)["examples"] == len(ODD)
    store = Store(Path(json.loads(done.out)["folder"]), "train")
    for row, (what, text) in enumerate(ODD.items()):
        start, *ids, end = store.target(row).tolist()
        assert store.tokenizer.decode(ids) == unicodedata.normalize("NFC", text), what
        assert min(ids) >= len(SPECIAL_TOKENS), what
        assert (start, end) == (1, 2)


def test_what_gives_no_token_still_has_an_end(monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    (here / "deaf.py").write_text(
        "from dialog.data.tokenizers.word_level import word\n"
        "def deaf(texts, *, pattern: str = '[a-z]+'):\n"
        "    import json, dialog.data.tokenizers.tokenizer as t\n"
        "    whole = json.loads(word(texts).json)\n"
        "    whole['pre_tokenizer']['pattern'] = {'Regex': pattern}\n"
        "    return t.Tokenizer(json.dumps(whole))\n"
    )
    monkeypatch.syspath_prepend(str(here))
    FORMATS["jsonl"].lay(turns("???", "hello", "!!!", "..."))
    done = prepared("jsonl", "data.tokenizer={name: deaf.deaf}")
    assert counted(done)["examples"] == 3
    store = Store(Path(json.loads(done.out)["folder"]), "train")
    assert store.lengths[:, 1].tolist() == [2, 1, 1]
    assert all(store.source(row)[-1] == 2 for row in range(3))


def test_prepared_data_follow_the_corpus() -> None:
    FORMATS["jsonl"].lay(GOOD)
    first = json.loads(prepared("jsonl").out)["folder"]
    assert json.loads(prepared("jsonl").out)["folder"] == first
    FORMATS["jsonl"].lay(GOOD * 2)
    second = prepared("jsonl")
    assert json.loads(second.out)["folder"] != first
    assert counted(second)["dialogues"] == 2
    FORMATS["jsonl"].lay(GOOD)
    assert json.loads(prepared("jsonl").out)["folder"] == first


CHANGES = {
    "grows": "path.write_text(path.read_text() * 2)",
    "shrinks": "path.write_text('')",
    "goes": "path.unlink()",
    "becomes a folder": "path.unlink(); path.mkdir()",
}


@pytest.mark.parametrize("moment", ["train", "validation", "test"])
@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_changes_while_it_is_read(
    monkeypatch: pytest.MonkeyPatch, here: Path, change: str, moment: str
) -> None:
    module = f"restless_{moment}_{change.replace(' ', '_')}"
    (here / f"{module}.py").write_text(
        "from pathlib import Path\n"
        "from dialog.data.corpora.jsonl import JsonLines\n"
        "class Restless(JsonLines):\n"
        "    def dialogues(self, split):\n"
        "        yield from super().dialogues(split)\n"
        f"        path = Path('corpus/{moment}.jsonl')\n"
        f"        if split == '{moment}' and path.is_file() and path.stat().st_size:\n"
        f"            {CHANGES[change]}\n"
    )
    monkeypatch.syspath_prepend(str(here))
    FORMATS["jsonl"].lay()
    line = refused(prepared(f"name: {module}.Restless"))
    assert "the corpus changed while it was read" in line or f"corpus/{moment}.jsonl" in line
    assert leftovers() == []


# ------------------------------------------------------------------ compressed files

BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "cut off": lambda whole: whole[:-5],
    "cut off in the middle": lambda whole: whole[: len(whole) // 2],
    "a wrong checksum": lambda whole: whole[:-6] + bytes([whole[-6] ^ 1]) + whole[-5:],
    "junk behind it": lambda whole: whole + b"junk",
    "a second one cut off": lambda whole: whole + whole[: len(whole) // 2],
    "not compressed": lambda _: GOOD * 99,
    "empty": lambda _: b"",
}


def many() -> bytes:
    """So many lines that some come out of a file before its end is seen to be broken."""
    return b"".join(turns(f"Question {n} ?", f"Answer {n * n} .") for n in range(3000))


@pytest.mark.parametrize("suffix", COMPRESS)
@pytest.mark.parametrize("damage", BROKEN)
def test_a_damaged_archive_is_refused_even_where_broken_lines_are_dropped(suffix: str, damage: str) -> None:
    FORMATS["jsonl"].lay()
    Path("corpus/train.jsonl").unlink()
    packed = {
        ".xz": lambda data: lzma.compress(data),
        ".zst": lambda data: zstd.compress(data, options={zstd.CompressionParameter.checksum_flag: 1}),
    }
    whole = packed.get(suffix, gzip.compress)(many())
    Path(f"corpus/train.jsonl{suffix}").write_bytes(BROKEN[damage](whole))
    line = refused(prepared("jsonl", "data.malformed=drop", ANY))
    assert line.startswith(f"corpus/train.jsonl{suffix} ")
    assert re.search(r"cannot be read to its end \(.+\); get it again|is empty", line)
    assert leftovers() == []


def test_a_split_that_the_rule_leaves_empty_is_refused_with_the_rule() -> None:
    Path("one.jsonl").write_bytes(FORMATS["jsonl"].good[0])
    line = refused(prepared("jsonl", path="one.jsonl"))
    assert line.startswith("the split validation gives no example (it is empty); a corpus without splits is split")
    assert line.endswith("or set data.path to a folder with one file per split")


# ------------------------------------------------------------------ what is no file


def link(to: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(to)


NO_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a FIFO": (os.mkfifo, "is not a regular file"),
    "a link to a FIFO": (lambda path: (os.mkfifo("fifo"), path.symlink_to(Path("fifo").resolve())), "is not a regular"),
    "a folder": (Path.mkdir, "is not a regular file"),
    "/dev/zero": (link("/dev/zero"), "is not a regular file"),
    "/dev/stdin": (link("/dev/tty"), "is not a regular file"),
    "a circle of links": (lambda path: path.symlink_to(path.absolute()), "Too many levels of symbolic links"),
    "a link to nowhere": (link("nowhere"), "does not exist"),
    "nothing": (lambda _: None, "does not exist"),
}


@pytest.mark.parametrize("name", ["jsonl", "dailydialog", "parallel"])
@pytest.mark.parametrize("kind", NO_FILES)
def test_what_is_no_file_is_refused_and_hangs_nothing(name: str, kind: str) -> None:
    make, message = NO_FILES[kind]
    FORMATS[name].lay()
    path = Path("corpus") / FORMATS[name].files[0].format("train")
    path.unlink()
    make(path)
    line = refused(prepared(name))
    assert line.startswith(f"{path} ")
    assert message in line
    assert leftovers() == []


@pytest.mark.parametrize("kind", [kind for kind in NO_FILES if kind != "a folder"])
def test_the_same_for_data_path_itself(kind: str) -> None:
    make, message = NO_FILES[kind]
    make(Path("data"))
    assert re.search(rf"^data .*{message}", refused(prepared("jsonl", path="data")))


@pytest.mark.parametrize("verb", ["prepare", "inspect"])
@pytest.mark.parametrize("name", ["jsonl", "dailydialog", "convokit", "taskmaster", "ubuntu"])
def test_paths_that_cannot_be(verb: str, name: str) -> None:
    for path in ("x" * 300, "x/" * 3000, '"a\\0b"', "\udcff"):
        corpus = [f"data.corpus={{name: {name}}}", f"data.path={path}"]
        assert refused(said(verb, RECIPE, "--json", *corpus, *["--no-tokens"] * (verb == "inspect")))


def test_a_link_to_a_file_is_a_file() -> None:
    FORMATS["jsonl"].lay(folder="elsewhere")
    Path("corpus").mkdir()
    for file in Path("elsewhere").iterdir():
        (Path("corpus") / file.name).symlink_to(file.resolve())
    assert counted(prepared("jsonl"))["examples"] == 1


# ------------------------------------------------------------------ processes


class Ended(NamedTuple):
    """A process, the seconds of processor time and the most bytes of memory that it took."""

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
"""A small process between, because a child's peak begins with that of its parent."""


def command(*arguments: str, path: str = "corpus", verb: str = "prepare") -> list[str]:
    return [sys.executable, "-m", "dialog", verb, RECIPE, "--json", f"data.path={path}", *arguments]


def ended(*arguments: str, largest: int | None = None, stdout: int | IO[str] = subprocess.PIPE) -> Ended:
    """A process that may write files of so many bytes."""

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


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The memory that a process takes for next to nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("usual"))
        patch.setenv("DIALOG_CACHE", "cache")
        FORMATS["jsonl"].lay()
        found = ended("data.corpus={name: jsonl}")
    assert found.done.code == 0, found.done.err
    return found.peak


def bomb(suffix: str, piece: bytes) -> bytes:
    """A gigabyte of a piece, in 64 members."""
    return COMPRESS[suffix](piece * (2**24 // len(piece))) * 64


BOMBS = [
    (".gz", b"\0", "jsonl"),
    (".gz", b"\n", "dailydialog"),
    (".gz", b"a\n\n", "text"),
    (".xz", b"\0", "text"),
    (".xz", b"{}\n", "jsonl"),
    (".zst", b"\n", "text"),
]


@pytest.mark.parametrize(("suffix", "piece", "name"), BOMBS)
def test_a_bomb_is_refused_soon_and_in_little_memory(suffix: str, piece: bytes, name: str, usual: int) -> None:
    FORMATS[name].lay()
    file = Path("corpus") / FORMATS[name].files[0].format("train")
    file.unlink()
    file.with_name(file.name + suffix).write_bytes(bomb(suffix, piece))
    done, seconds, peak = ended(f"data.corpus={{{FORMATS[name].corpus}}}", "data.malformed=drop", ANY)
    assert re.search(rf"^{file}{suffix} gives more than 300 times its size", refused(done))
    assert seconds < 5
    assert peak - usual < 2**27
    assert leftovers() == []


def test_an_endless_line_is_refused_in_bounded_memory(usual: int) -> None:
    FORMATS["jsonl"].lay()
    os.truncate("corpus/train.jsonl", 2**28)
    done, _, peak = ended("data.corpus={name: jsonl}", "data.malformed=drop", ANY)
    assert refused(done).startswith("corpus/train.jsonl: a line is longer than 67,108,864 bytes")
    assert peak - usual < 2**28


def test_many_megabyte_turns_do_not_fill_the_memory(usual: int) -> None:
    with Path("lines").open("wb") as file:
        for n in range(100):
            file.write(turns(f"{n} " + "b" * 2**20, "a" * 2**20))
    FORMATS["jsonl"].lay()
    Path("lines").replace("corpus/train.jsonl")
    done, _, peak = ended("data.corpus={name: jsonl}")
    assert counted(done)["cut: characters"] == 200
    assert peak - usual < 150 * 2**20


def test_dialogues_of_many_speakers_do_not_fill_the_memory(usual: int) -> None:
    with Path("lines").open("w") as file:
        for n in range(200):
            each = ", ".join(f'{{"speaker": "{n}-{k}", "text": "a"}}' for k in range(1000))
            file.write(f'{{"turns": [{each}]}}\n')
    FORMATS["jsonl"].lay()
    Path("lines").replace("corpus/train.jsonl")
    done, _, peak = ended("data.corpus={name: jsonl}")
    assert counted(done)["turns"] == 200_000
    assert peak - usual < 200 * 2**20


def test_megabytes_of_meta_do_not_fill_the_memory(usual: int) -> None:
    FORMATS["jsonl"].lay()
    with Path("corpus/train.jsonl").open("wb") as file:
        for n in range(200):
            file.write(turns("Hi", "Hello", meta={f"{n}": ["a" * 2**20]}))
    done, _, peak = ended("data.corpus={name: jsonl}")
    assert counted(done)["dialogues"] == 200
    assert peak - usual < 150 * 2**20


def test_a_dialogue_of_megabyte_lines_does_not_fill_the_memory(usual: int) -> None:
    FORMATS["text"].lay()
    with Path("corpus/train.txt").open("ab") as file:
        for n in range(200):
            file.write(f"{n} ".encode() + b"a" * 2**20 + b"\n")
    done, _, peak = ended("data.corpus={name: text}", "data.malformed=drop", ANY)
    assert counted(done)["dropped dialogues: malformed"] == 1
    assert peak - usual < 200 * 2**20


def lay_parquet(train: list[list[str]], **settings: object) -> int:
    """A folder of Parquet files, and the size of the training file."""
    Path("corpus").mkdir()
    for split in SPLITS:
        rows = train if split == "train" else [["Hi", "Hello"]]
        parquet.write_table(pyarrow.table({"messages": rows}), f"corpus/{split}.parquet", **settings)
    return Path("corpus/train.parquet").stat().st_size


HUB = "data.corpus={name: huggingface}"


def test_parquet_of_megabyte_turns_does_not_fill_the_memory(usual: int) -> None:
    noise = "".join(random.Random(1).choices("abcdefghijklmnop", k=2**22))
    lay_parquet([["a" * 2**20] * 2] * 200 + [[noise, "Hello"]])
    done, _, peak = ended(HUB)
    assert counted(done)["cut: characters"] == 401
    assert peak - usual < 600 * 2**20


@pytest.mark.parametrize("settings", [{"use_dictionary": True}, {"use_dictionary": False, "compression": "zstd"}])
@pytest.mark.parametrize("rows", [1, 200])
def test_a_bomb_of_parquet_is_refused_in_little_memory(settings: dict[str, object], rows: int, usual: int) -> None:
    size = lay_parquet([["a" * 2**20] * (400 // rows)] * rows, **settings)
    done, _, peak = ended(HUB, "data.malformed=drop", ANY)
    assert 300 * size < 400 * 2**20, "else it is none"
    assert refused(done).startswith("corpus/train.parquet gives more than 300 times its size; give it as JSON lines")
    assert peak - usual < 2**27


def test_a_row_that_would_fill_the_memory_is_refused(usual: int) -> None:
    noise = "".join(random.Random(1).choices("abcdefghijklmnop", k=3 * 2**20))
    lay_parquet([["Hi", "Hello"], ["a" * 2**20] * 300, [noise, noise]], dictionary_pagesize_limit=2**24)
    done, _, peak = ended(HUB, "data.malformed=drop", ANY)
    assert refused(done).startswith("corpus/train.parquet:2: a row of more than 67,108,864 bytes")
    assert peak - usual < 2**27


def test_a_small_archive_of_one_large_json_does_not_fill_the_memory(usual: int) -> None:
    said = [
        [{"speaker": who, "text": f"{who} {n}"} for who in ("user", "assistant")]
        for n in range(1500)  # each with lists that take 200 KB once they are read
    ]
    whole = [{"conversation_id": f"{n}", "utterances": each, "more": [[]] * 3000} for n, each in enumerate(said)]
    Path("corpus").mkdir()
    Path("corpus/data.json.gz").write_bytes(gzip.compress(json.dumps(whole).encode()))
    done, _, peak = ended("data.corpus={name: taskmaster}")
    assert 1000 < counted(done)["dialogues"] < 1400
    assert peak - usual < 150 * 2**20


DEADLY = """
import os, signal
from dialog.data.corpora.jsonl import JsonLines

class Deadly(JsonLines):
    reads = 0

    def _read(self):
        Deadly.reads += 1
        if str(Deadly.reads) == os.environ.get("DEADLY"):
            os.kill(os.getpid(), signal.SIGKILL)

    def dialogues(self, split):
        found = super().dialogues(split)
        yield next(found)
        self._read()
        yield from found

    def fingerprint(self):
        self._read()
        return super().fingerprint()
"""


def test_a_kill_leaves_nothing_that_looks_finished(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads: 1 the fingerprint, 2 to learn the tokenizer, 3 to 5 to write the splits, 6 the fingerprint again."""
    (here / "deadly.py").write_text(DEADLY)
    FORMATS["jsonl"].lay(GOOD * 3)
    for read in (2, 4, 6):
        monkeypatch.setenv("DEADLY", str(read))
        assert ended("data.corpus={name: deadly.Deadly}").done.code == -signal.SIGKILL
        assert all(path.name.startswith(".") and path.name.endswith(".partial") for path in leftovers())
    monkeypatch.delenv("DEADLY")
    done = ended("data.corpus={name: deadly.Deadly}").done
    assert counted(done)["examples"] == 3
    assert leftovers() == [Path(json.loads(done.out)["folder"])]


def test_a_full_disk_is_one_line_and_leaves_nothing() -> None:
    FORMATS["jsonl"].lay(many())
    for size in (1000, 50_000):  # within the tokenizer, within the arrays
        done = ended("data.corpus={name: jsonl}", largest=size).done
        line = refused(done)
        assert line.startswith("cache: prepared data cannot be written there (")
        assert line.endswith("; make room, or set DIALOG_CACHE to another folder")
        assert leftovers() == []


def test_a_file_system_that_is_full(here: Path) -> None:
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", here / "cache"]).returncode:
        pytest.skip("no file system can be mounted here")
    FORMATS["jsonl"].lay(many())
    mount = (
        f"mount -t tmpfs -o size=300k none cache && {{ {' '.join(map(repr, command('data.corpus={name: jsonl}')))}; "
    )
    inside = mount + "code=$?; ls -A cache; exit $code; }"
    done = subprocess.run(["unshare", "-m", "sh", "-c", inside], capture_output=True, text=True, timeout=PATIENCE)
    line = refused(Done(done.returncode, done.stdout, done.stderr))
    assert "No space left on device" in line
    assert line.startswith("cache: prepared data cannot be written there (")


def test_a_full_disk_behind_standard_output_is_one_line() -> None:
    FORMATS["jsonl"].lay()
    with Path("/dev/full").open("w") as full:
        done = ended("data.corpus={name: jsonl}", stdout=full).done
    assert (done.code, done.err.splitlines()[-1]) == (
        2,
        "dialog: [Errno 28] No space left on device; make room on the disk and run it again",
    )
    assert "Exception" not in done.err


def test_a_reader_may_have_enough() -> None:
    FORMATS["jsonl"].lay()
    child = subprocess.Popen(command("data.corpus={name: jsonl}"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.close()
    _, err = child.communicate(timeout=PATIENCE)
    assert child.returncode == 141
    assert b"Traceback" not in err


def humbly() -> list[str]:
    """What to put before a command so that permissions hold for root too."""
    if os.getuid():
        return []
    powers = "-dac_override,-dac_read_search"
    found = ["setpriv", f"--inh-caps={powers}", f"--bounding-set={powers}"]
    if not shutil.which("setpriv") or subprocess.run([*found, "true"], capture_output=True).returncode:
        pytest.skip("root may read everything, and setpriv does not take that from it here")
    return found


def test_what_one_may_not_read_or_write_is_one_line() -> None:
    def answer(*arguments: str, path: str = "corpus", verb: str = "prepare") -> str:
        line = [*before, *command(*arguments, path=path, verb=verb)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE)
        return refused(Done(done.returncode, done.stdout, done.stderr))

    before = humbly()
    FORMATS["jsonl"].lay()
    Path("cache").chmod(0o555)
    assert answer("data.corpus={name: jsonl}").startswith("cache: prepared data cannot be written there (")
    Path("cache").chmod(0o755)
    Path("corpus/train.jsonl").chmod(0)
    for path in ("corpus", "corpus/train.jsonl"):
        line = answer("data.corpus={name: jsonl}", path=path)
        assert line.startswith("corpus/train.jsonl cannot be read (Permission denied)")
    Path("corpus").chmod(0o600)
    for corpus in ("jsonl", "dailydialog"):
        for verb, *options in (["prepare"], ["inspect", "--no-tokens"]):
            assert "Permission denied" in answer(f"data.corpus={{name: {corpus}}}", *options, verb=verb)
    Path("corpus").chmod(0o755)
    assert leftovers() == []


# ------------------------------------------------------------------ whatever it is


@contextmanager
def elsewhere() -> Iterator[None]:
    """A folder of an example's own."""
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        Path("cache").mkdir()
        yield


good_lines = st.builds(turns, st.just("Hi"), st.text("abc é\u3000", min_size=1, max_size=5).filter(str.strip))
bad_lines = st.sampled_from(
    [b"\n", b"{\n", b"3\n", b"\xff\n", b'{"turns": 1}\n', b'{"turns": ["\\ud800", "a"]}\n', b"[" * 5000 + b"\n"]
)
odd_lines = st.sampled_from([turns("alone"), turns(), turns(" ", "\u00a0"), turns("a", "", "b"), turns("", "a")])


@settings(max_examples=40)
@given(st.lists(st.one_of(good_lines, bad_lines, odd_lines), min_size=1, max_size=12))
def test_good_dialogues_are_exactly_those_read(lines: list[bytes]) -> None:
    with elsewhere():
        FORMATS["jsonl"].lay(turns("Hi", "first") + b"".join(lines))
        done = prepared("jsonl", "data.malformed=drop", ANY, "data.tokenizer={name: characters}")
        counts = counted(done)
        assert counts["dialogues read"] == 1 + len(lines)
        expected = [[t for t in _texts(line) if t.strip()] for line in lines]
        kept = [["Hi", "first"], *(texts for texts in expected if len(texts) > 1)]
        store = Store(Path(json.loads(done.out)["folder"]), "train")
        replies = [store.tokenizer.decode(store.target(row).tolist()[1:-1]) for row in range(len(store))]
        assert replies == [unicodedata.normalize("NFC", text) for texts in kept for text in texts[1:]]
        malformed = sum(line in BAD for line in lines)
        assert counts.get("dropped dialogues: malformed", 0) == malformed
        refusing = prepared("jsonl", ANY)
        assert refusing.code == (2 if malformed else 0)
        if malformed:
            first = 2 + next(n for n, line in enumerate(lines) if line in BAD)
            assert refused(refusing).startswith(f"corpus/train.jsonl:{first}: ")


BAD = {b"\n", b"{\n", b"3\n", b"\xff\n", b'{"turns": 1}\n', b'{"turns": ["\\ud800", "a"]}\n', b"[" * 5000 + b"\n"}


def _texts(line: bytes) -> list[str]:
    return [] if line in BAD else json.loads(line)["turns"]


PIECES = [
    *(
        b"\n",
        b"\r",
        b"\r\n",
        b"\t",
        b" ",
        b",",
        b'"',
        b":",
        b"|",
        b"\\",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xed\xa0\xbd",
    ),
    *(b"__eou__", b"Anna: ", b"text:", b"labels:", b"episode_done:True", b"1 ", b"2 ", b"your persona: ", b"a", b"b"),
    *(b"{", b"}", b"[", b"]", b'"turns"', b'"messages"', b'"role"', b'"user"', b'"content"', b"null", b"1e999", b"NaN"),
    *(b"dialogue,speaker,text\n", "\u2028\u0085\u3000\u0301".encode(), b"__SILENCE__", b"__PIPE__"),
]
mess = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=3)), max_size=20).map(b"".join)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_a_file_holds_it_is_read_or_refused_in_one_line(name: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    begins = [data.draw(st.sampled_from([good, b""])) for good in form.good]
    train = [
        begin + data.draw(mess) + data.draw(st.sampled_from([good, b""]))
        for begin, good in zip(begins, form.good, strict=True)
    ]
    mode = data.draw(st.sampled_from(["refuse", "drop"]))
    with elsewhere():
        form.lay(*train)
        done = prepared(name, f"data.malformed={mode}", ANY)
        if done.code:
            refused(done)
            assert leftovers() == []
        else:
            counted(done)
