"""Malformed corpora: one line with file, line and reason, and no file left behind."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

import pytest
from corpus_program import FORMATS, GOOD, error_line, leftovers, prepare, turns

if sys.version_info >= (3, 14):
    pass
else:
    pass


class Malformed(NamedTuple):
    """Files of the training split in a format, the expected message, and further arguments."""

    id: str
    format: str
    train: tuple[bytes, ...]
    message: str
    arguments: tuple[str, ...] = ()


def json_line(what: str, line: bytes, message: str) -> Malformed:
    return Malformed(what, "jsonl", (GOOD + line + GOOD,), rf"corpus/train\.jsonl:2: {message}")


NOTHING = [
    Malformed(
        f"empty file, {name}",
        name,
        tuple(b"" for _ in form.files),
        r"^corpus/train\S* is empty; it should hold",
    )
    for name, form in FORMATS.items()
]
BLANK = [
    Malformed(
        f"only blank lines, {name}", name, tuple(b"\n \n\r\n" for _ in FORMATS[name].files), message
    )
    for name, message in {
        "jsonl": r"^corpus/train\.jsonl holds no dialogue; it should hold",
        "dailydialog": (
            r"^the split train gives no example \(.*dialogues: empty 3.*; first:"
            r" corpus/train/\S+:1: no t"
        ),
        "text": r"^corpus/train\.txt holds no dialogue; it should hold",
        "csv": r"^corpus/train\.csv:1: no column 'dialogue'",
        "messages": r"^corpus/train\.jsonl holds no dialogue; it should hold",
        "parallel": (
            r"^the split train gives no example \(.*dialogues: empty 3.*; first:"
            r" corpus/train\.de:1: 2 of 2"
        ),
        "parlai": r"^corpus/train\.txt holds no dialogue; it should hold",
        "personachat": r"^corpus/train\S+\.txt:1: not line 1 of its dialogue",
    }.items()
]
ENCODINGS = [
    Malformed(
        "not UTF-8, jsonl",
        "jsonl",
        (GOOD + turns("a", "b").replace(b"a", b"\xff"),),
        r"train\.jsonl:2: byte 13 of",
    ),
    Malformed(
        "not UTF-8, dailydialog",
        "dailydialog",
        (b"a __eou__ caf\xe9 __eou__\n",),
        r"_train\.txt:1: byte 14 of",
    ),
    Malformed(
        "not UTF-8, text",
        "text",
        (b"a\nb\n\nc\nd\xe9\n",),
        r"train\.txt:5: byte 2 of the line is not UTF-8",
    ),
    Malformed(
        "not UTF-8, csv",
        "csv",
        (FORMATS["csv"].good[0] + b"b,A,\xe9\n",),
        r"train\.csv:4: byte 5 of the line",
    ),
    Malformed(
        "not UTF-8, messages",
        "messages",
        (b'{"messages": "\xe9"}\n',),
        r"train\.jsonl:1: byte 15 of the line",
    ),
    Malformed(
        "not UTF-8, parallel",
        "parallel",
        (b"a\nb\n", b"a\n\xe9\n"),
        r"train\.en:2: byte 1 of the line is not",
    ),
    Malformed(
        "not UTF-8, parlai",
        "parlai",
        (b"text:\xe9\tlabels:b\n",),
        r"train\.txt:1: byte 6 of the line is not",
    ),
    Malformed(
        "not UTF-8, personachat",
        "personachat",
        (b"1 a\tb\n2 \xe9\tc\n",),
        r"original\.txt:2: byte 3 of the line",
    ),
    Malformed(
        "UTF-16",
        "text",
        ("Hi\nHello\n".encode("utf-16"),),
        r"train\.txt is UTF-16; convert it to UTF-8: iconv",
    ),
    Malformed(
        "no such encoding",
        "text",
        (b"a\nb\n",),
        "no encoding 'utf-9'",
        ("data.corpus.encoding='utf-9'",),
    ),
    Malformed(
        "no encoding of text",
        "csv",
        (b"a\nb\n",),
        "no encoding 'hex'",
        ("data.corpus.encoding=hex",),
    ),
    Malformed(
        "no encoding of lines",
        "csv",
        (b"a\nb\n",),
        "no encoding 'undefined'",
        ("data.corpus.encoding=undefined",),
    ),
    Malformed(
        "carriage returns as line ends, jsonl",
        "jsonl",
        (GOOD.replace(b"\n", b"\r") * 2,),
        r"train\.jsonl:1: not JSON",
    ),
    Malformed(
        "carriage returns as line ends, text",
        "text",
        (b"a\rb\r",),
        "the split train gives no example .*single turn 1",
    ),
]
SEPARATORS = [
    Malformed(
        "no mark at the end",
        "dailydialog",
        (b"a __eou__ b\n",),
        r"_train\.txt:1: text after the last __eou__",
    ),
    Malformed(
        "tabs for marks", "dailydialog", (b"a\tb\n",), r"_train\.txt:1: text after the last __eou__"
    ),
    Malformed(
        "too few columns",
        "csv",
        (FORMATS["csv"].good[0] + b"b,A\n",),
        r"train\.csv:4: 2 columns, but 3 names",
    ),
    Malformed(
        "too many columns",
        "csv",
        (FORMATS["csv"].good[0] + b"b,A,x,y\n",),
        r"train\.csv:4: 4 columns, but 3",
    ),
    Malformed(
        "bars for commas",
        "csv",
        (b"dialogue|speaker|text\na|A|Hi\n",),
        r"train\.csv:1: no column 'dialogue'",
    ),
    Malformed(
        "open quote",
        "csv",
        (FORMATS["csv"].good[0] + b'b,A,"x\n' * 3,),
        r"train\.csv:\d: .*; correct the row",
    ),
    Malformed("no tab", "personachat", (b"1 a b\n",), r"original\.txt:1: no tab"),
    Malformed(
        "numbers that jump",
        "personachat",
        (b"1 a\tb\n3 a\tb\n",),
        r"original\.txt:2: not line 2 of its",
    ),
    Malformed(
        "no labels",
        "parlai",
        (b"text:a\tepisode_done:True\n",),
        r"train\.txt:1: no text or no labels",
    ),
    Malformed(
        "no speaker",
        "text",
        (b"Anna: Hi\nHello\n",),
        r"train\.txt:2: no speaker",
        ("data.corpus.speakers=true",),
    ),
    Malformed(
        "a line too many",
        "parallel",
        (b"a\nb\n", b"a\nb\nc\n"),
        r"train\.de has 2 lines, but corpus/train\.en 3",
    ),
    Malformed(
        "a line too few",
        "parallel",
        (b"a\n\nb\n", b"a\nb\n"),
        r"train\.de has 3 lines, but corpus/train\.en 2",
    ),
]
SPLITTERS = [
    Malformed(
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
    json_line(
        "-Infinity",
        b'{"turns": ["a", "b"], "meta": {"n": -Infinity}}\n',
        ".*-Infinity is not a JSON",
    ),
    json_line("1e999", b'{"turns": ["a", "b"], "meta": {"n": 1e999}}\n', ".*1e999 is too large"),
    json_line(
        "5,000 digits",
        b'{"turns": ["a", "b"], "meta": {"n": ' + b"9" * 5000 + b"}}\n",
        "not JSON that can",
    ),
    json_line(
        "depth 100,000",
        b'{"turns": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
        "not JSON that can be read",
    ),
    json_line("depth of objects", b'{"turns":' * 100_000 + b"\n", "not JSON"),
    json_line(
        "duplicate key", b'{"turns": ["a", "b"], "turns": ["c", "d"]}\n', ".*'turns' is repeated"
    ),
    json_line("an empty array", b"[]\n", 'no "turns"'),
    json_line("a number", b"3\n", 'no "turns"'),
    json_line("null", b"null\n", 'no "turns"'),
    json_line("turns a string", b'{"turns": "ab"}\n', 'no "turns"'),
    json_line("a turn a number", b'{"turns": ["a", 3]}\n', "turn 2 has no"),
    json_line("a text a list", b'{"turns": ["a", {"text": ["b"]}]}\n', 'turn 2: "text" is list'),
    json_line(
        "a speaker a number",
        b'{"turns": ["a", {"text": "b", "speaker": 1}]}\n',
        'turn 2: "speaker" is int',
    ),
    json_line(
        "an empty speaker",
        b'{"turns": ["a", {"text": "b", "speaker": ""}]}\n',
        'turn 2: "speaker" is empty',
    ),
    json_line("an id a fraction", turns("a", "b", id=7.5), '"id" is float'),
    json_line(
        "half a character", b'{"turns": ["a", "\\ud83d"]}\n', r".*half a character \(\\ud83d\)"
    ),
    json_line(
        "the other half",
        b'{"turns": ["a", {"text": "b", "speaker": "\\ude00"}]}\n',
        ".*half a character",
    ),
    json_line(
        "half a character in UTF-8",
        b'{"turns": ["a", "\xed\xa0\xbd"]}\n',
        "byte 18 of the line is not UTF-8",
    ),
    Malformed(
        "a role a number",
        "messages",
        (b'{"messages": [{"role": 1, "content": "a"}]}\n',),
        r"jsonl:1: message 1 is",
    ),
    Malformed(
        "no role", "messages", (b'{"messages": [{"content": "a"}]}\n',), r"jsonl:1: .*'role'"
    ),
    Malformed(
        "null said",
        "messages",
        (b'{"messages": [{"role": "user", "content": null}]}\n',),
        "its content is NoneType",
    ),
    Malformed(
        "half a character, messages",
        "messages",
        (FORMATS["messages"].good[0].replace(b"Hi", b"\\udc00"),),
        ":1: .*half",
    ),
]
IDS = [
    Malformed(
        "an id twice",
        "jsonl",
        (turns("a", "b", id="x") + GOOD + turns("a", "c", id="x"),),
        r"^corpus/train\.jsonl:3: the id 'x' occurs twice in train, with other text at"
        r" corpus/train\.jsonl:1; give",
    ),
    Malformed(
        "an id that comes again",
        "csv",
        (FORMATS["csv"].good[0] + b"b,A,x\nb,B,y\na,A,z\n",),
        r"csv:6: .*has earlier",
    ),
    Malformed(
        "a share above 1", "jsonl", (GOOD,), "data.max_dropped is 2", ("data.max_dropped=2",)
    ),
    Malformed(
        "another mode",
        "jsonl",
        (GOOD,),
        "data.malformed is 'ignore'; give refuse or drop",
        ("data.malformed=ignore",),
    ),
]


@pytest.mark.parametrize(
    "row",
    [*NOTHING, *BLANK, *ENCODINGS, *SEPARATORS, *SPLITTERS, *JSON, *IDS],
    ids=lambda row: row.id,
)
def test_malformed_corpus_is_one_line_with_its_place(row: Malformed) -> None:
    FORMATS[row.format].write(*row.train)
    line = error_line(prepare(row.format, *row.arguments))
    assert re.search(row.message, line), line
    assert leftovers() == []
