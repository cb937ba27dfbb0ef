"""Empty, single, dropped and odd turns are counted, and the counts add up."""

from __future__ import annotations

import re
import sys
from typing import NamedTuple

import pytest
from corpus_program import (
    ANY,
    FORMATS,
    GOOD,
    RECIPE,
    counts_of,
    error_line,
    prepare,
    run_program,
    turns,
)

if sys.version_info >= (3, 14):
    pass
else:
    pass


class Counted(NamedTuple):
    """Files of the training split in a format, the expected counts, and further arguments."""

    id: str
    format: str
    train: tuple[bytes, ...]
    counts: dict[str, int]
    arguments: tuple[str, ...] = ()


WHITE = (
    "",
    " ",
    "\t",
    "\u00a0",
    "\u3000",
    "\u2003",
    "\u0085",
    "\u2028",
    "\x1c\x1f",
    " \u00a0\u3000 ",
)
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
        (
            FORMATS["messages"]
            .good[0]
            .replace(b"[{", b'[{"role": "user", "content": "\\u3000"}, {'),
        ),
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
        "white space up to the truncation",
        "jsonl",
        (turns("Hi", " " * 20 + "Hello", "Well"),),
        {"turns": 2, "dropped turns: empty": 1},
        ("data.max_turn_characters=20", "data.normalise=false", "data.tokenizer={name: word}"),
    ),
]
SINGLE = {
    "jsonl": (GOOD + turns("alone"),),
    "dailydialog": (b"Hi __eou__ Hello __eou__\nalone __eou__\n",),
    "text": (b"Hi\nHello\n\n\nalone\n",),
    "csv": (FORMATS["csv"].good[0] + b"b,A,alone\n",),
    "messages": (
        FORMATS["messages"].good[0] + b'{"messages": [{"role": "user", "content": "alone"}]}\n',
    ),
    "parallel": (b"Hallo\nallein\n", b"Hello\n \n"),
    "parlai": (FORMATS["parlai"].good[0] + b"text:\tlabels:alone\n",),
    "personachat": (b"1 Hi\tHello\n1 __SILENCE__\talone\n",),
}
SINGLES = [
    Counted(
        f"single turn, {name}",
        name,
        train,
        {
            "dialogues": 1,
            "dropped dialogues: single turn": 1,
            "dropped turns: single turn": 1,
            "examples": 1,
        },
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
        (
            "messages",
            2,
            (FORMATS["messages"].good[0] + b'{"messages": [{"role": "tool", "content": ""}]}\n',),
        ),
        ("parallel", 2, (b"a\nb\n", b"a\n\xff\n")),
        ("parlai", 2, (FORMATS["parlai"].good[0] + b"text:a\n",)),
        ("personachat", 2, (b"1 a\tb\n1 a\n",)),
    )
]
TWICE = (
    b'{"turns": [{"speaker": "A", "text": "a"}, {"speaker": "A", "text": "b"}, {"speaker": "B",'
    b' "text": "c"}]}'
)
SPEAKERS = [
    Counted(
        "no speaker and null",
        "jsonl",
        (b'{"turns": [{"speaker": null, "text": "a"}, {"text": "b"}]}\n',),
        {"turns": 2},
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
        {
            "turns read": 4,
            "turns": 2,
            "dropped turns: merged": 1,
            "dropped turns: empty": 1,
            "bytes": 4,
        },
        ("data.merge_turns=true",),
    ),
    Counted(
        "a responder without turns",
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
    Counted(
        "byte order mark, csv", "csv", (b"\xef\xbb\xbf" + FORMATS["csv"].good[0],), {"bytes": 7}
    ),
    Counted(
        "byte order mark, parallel", "parallel", (b"\xef\xbb\xbfHi\n", b"Hello\n"), {"bytes": 7}
    ),
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
        Counted(
            f"no line end at the end, {name}",
            name,
            tuple(each.rstrip() for each in form.good),
            {"examples": 1},
        )
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
    Counted(
        "two halves are a character",
        "jsonl",
        (b'{"turns": ["\\ud83d\\ude00", "a"]}\n',),
        {"bytes": 5},
    ),
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
    Counted(
        "a turn of a megabyte",
        "jsonl",
        (turns("a", "b" * 2**20),),
        {"cut: characters": 1, "bytes": 10_001},
    ),
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
    Counted(
        "a turn of a megabyte, text",
        "text",
        (b"a\n" + b"b " * 2**19,),
        {"cut: characters": 1, "bytes": 10_001},
    ),
    Counted(
        "a fact of a megabyte",
        "messages",
        (
            FORMATS["messages"]
            .good[0]
            .replace(b"[{", b'[{"role": "system", "content": "' + b"b" * 2**20 + b'"}, {'),
        ),
        {"cut: characters": 1, "facts": 1},
    ),
    Counted(
        "an id twice, of the same words",
        "jsonl",
        (turns("a", "b", id="x") * 3,),
        {"dialogues": 3, "examples": 3},
    ),
    Counted("in every split", "jsonl", (GOOD,), {"dialogues": 1}),
]


@pytest.mark.parametrize(
    "row", [*EMPTY, *SINGLES, *DROPPED, *SPEAKERS, *TEXT], ids=lambda row: row.id
)
def test_turns_are_counted_and_counts_add_up(row: Counted) -> None:
    FORMATS[row.format].write(*row.train)
    counts = counts_of(prepare(row.format, ANY, *row.arguments))
    assert {key: counts.get(key, 0) for key in row.counts} == row.counts
    assert counts["tokens"] >= counts["turns"]


@pytest.mark.parametrize("name", FORMATS)
def test_more_than_max_dropped_is_an_error(name: str) -> None:
    (row,) = (row for row in DROPPED if row.format == name)
    FORMATS[name].write(*row.train)
    read = row.counts["dialogues read"]
    for share, code in ((0.99 / read, 2), (1 / read, 0)):
        done = prepare(name, "data.malformed=drop", f"data.max_dropped={share}")
        assert done.code == code, done.err
        if code:
            line = error_line(done)
            assert (
                f"train: 1 of {read} dialogues are malformed or empty, more than data.max_dropped"
                in line
            )
            assert re.search(r"; first: corpus/train\S*:\d", line)
    assert re.search(
        r"^train: corpus/train\S*:\d", run_program(*row_arguments(name)).out, re.MULTILINE
    )
    again = prepare(name, "data.malformed=drop")
    assert "more than data.max_dropped=0.01 allows" in error_line(again), (
        "the limit must also apply to data that are already prepared"
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


def test_more_empty_turns_than_max_dropped_is_an_error() -> None:
    FORMATS["jsonl"].write(GOOD * 3 + GAPS + GAPS)
    line = error_line(prepare("jsonl"))
    assert line.startswith(
        "train: 20 of 30 turns are empty, more than data.max_dropped=0.01 allows; fix them or"
        " raise it"
    )
    assert line.endswith("; first: corpus/train.jsonl:4: 10 of 12 turns are empty")
