"""Tables of dialogues: wrong quotes, columns and order."""

from __future__ import annotations

import csv
import gzip
import io
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.config.components import build
from dialog.data.corpora import CORPORA
from dialog.data.corpora.csv import Csv
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Malformed, Turn
from dialog.errors import UserError

HEAD = "dialogue,speaker,text\n"
CELL = st.text(st.characters(exclude_characters="\r\0", exclude_categories=["Cs"]), min_size=1)


def rows(folder: Path, content: str, suffix: str = ".csv", **arguments: object) -> list[Entry]:
    (folder / f"train{suffix}").write_bytes(content.encode())
    return list(build(CORPORA, {"name": "csv", **arguments}, path=folder).dialogues("train"))


def test_consecutive_rows_with_one_id_are_a_dialogue(tmp_path: Path) -> None:
    content = 'n,text,speaker,dialogue\n1,Hi !,Anna,a\n2,"""So""\nhe, said",Bo,a\n\n3,Who ?,Bo,b\n'
    first, second = rows(tmp_path, content)
    assert isinstance(first, Dialogue)
    assert isinstance(second, Dialogue)
    assert (first.id, first.turns) == ("a", (Turn("Anna", "Hi !"), Turn("Bo", '"So"\nhe, said')))
    assert (second.id, second.place) == ("b", f"{tmp_path / 'train.csv'}:6")


def test_an_id_that_occurs_again_is_malformed(tmp_path: Path) -> None:
    first, second, again = rows(tmp_path, f"{HEAD}a,x,one\nb,x,two\na,x,three\n")
    assert isinstance(first, Dialogue)
    assert isinstance(second, Dialogue)
    assert isinstance(again, Malformed)
    assert "train.csv:4: dialogue 'a' has earlier rows" in again.message


def test_columns_can_be_chosen_and_speakers_alternate(tmp_path: Path) -> None:
    (dialogue,) = rows(
        tmp_path, "id\tsaid\n7\tHi\n7\tYes\n", ".tsv", dialogue="id", speaker=None, text="said"
    )
    assert isinstance(dialogue, Dialogue)
    assert (dialogue.id, dialogue.turns) == ("7", (Turn("A", "Hi"), Turn("B", "Yes")))


def test_a_row_may_be_a_pair(tmp_path: Path) -> None:
    for split in SPLITS:
        (tmp_path / f"{split}.tsv").write_text('asks;says\n"5"" tall";no\nWho ?;Me\n')
    corpus = Csv(tmp_path, context="asks", response="says", delimiter=";")
    first, second = corpus.dialogues("test")
    assert (first.id, first.turns) == ("test-2", (Turn("A", '5" tall'), Turn("B", "no")))
    assert second.id == "test-3"
    (tmp_path / "test.csv").write_text("asks,says\n")
    with pytest.raises(UserError, match=r"test\.csv and test\.tsv; remove one of them"):
        list(corpus.dialogues("test"))


def test_quotes_may_be_text(tmp_path: Path) -> None:
    (dialogue,) = rows(
        tmp_path, 'dialogue\tspeaker\ttext\na\tx\t"Hi, he said\na\ty\tso"\n', ".tsv", quotes=False
    )
    assert isinstance(dialogue, Dialogue)
    assert [turn.text for turn in dialogue.turns] == ['"Hi, he said', 'so"']


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("b,x\n", "train.csv:3: 2 columns, but 3 names"),
        ("b,x,y,z\n", "train.csv:3: 4 columns, but 3 names"),
        ('b,x,"y"z\n', "train.csv:3: "),
        ("b,,y\n", "train.csv:3: no 'speaker'"),
    ],
)
def test_an_unreadable_row_is_reported_and_the_rest_read(
    tmp_path: Path, bad: str, message: str
) -> None:
    entries = rows(tmp_path, f"{HEAD}a,x,one\n{bad}c,x,three\n")
    (malformed,) = [entry.message for entry in entries if isinstance(entry, Malformed)]
    assert message in malformed
    assert "\n" not in malformed
    assert [entry.id for entry in entries if isinstance(entry, Dialogue)][-1] == "c"


def test_a_bad_row_makes_its_dialogue_malformed(tmp_path: Path) -> None:
    bad, good = rows(tmp_path, f"{HEAD}a,x,one\na,y\na,x,three\nb,x,four\n")
    assert isinstance(bad, Malformed)
    assert isinstance(good, Dialogue)


def test_an_unclosed_quote_is_malformed(tmp_path: Path) -> None:
    good, bad, after = rows(tmp_path, f'{HEAD}a,x,one\nb,x,one\nb,x,"two\nc,x,three\n')
    assert isinstance(good, Dialogue)
    assert isinstance(bad, Malformed)
    assert "train.csv:4: " in bad.message
    assert isinstance(after, Dialogue)


QUOTED = {
    "in the middle of a quoted cell": '"say "two" ."',
    "at the end of a cell": 'two"',
    "in the middle of a cell": 'tw"o',
    "at the start of a cell": '"two',
    "at the start, and one twice": '"two ""so"" .',
    "at the start, and a cell of quotes": '"two ""',
}


@pytest.mark.parametrize("number", [2, 60, 101])
@pytest.mark.parametrize("kind", QUOTED)
def test_a_stray_quote_drops_only_its_row(tmp_path: Path, kind: str, number: int) -> None:
    for after in ("plain", '"quoted"', '"quo,ted"', '""', '"open', '"two\nlines"'):
        texts = {line: f"text {line}" for line in range(2, 102)} | {number: QUOTED[kind]}
        if number + 20 in texts:
            texts[number + 20] = after
        content = HEAD + "".join(f"d{line},x,{text}\n" for line, text in texts.items())
        entries = rows(tmp_path, content, context="dialogue", response="text")
        opened = [number] if kind.startswith(("in the middle of a quoted", "at the start")) else []
        bad = [*opened, *[line for line, text in texts.items() if text == '"open']]
        places = [
            entry.message.partition(": ")[0] for entry in entries if isinstance(entry, Malformed)
        ]
        assert places == [f"{tmp_path / 'train.csv'}:{line}" for line in bad]
        responses = [entry.turns[1].text for entry in entries if isinstance(entry, Dialogue)]
        assert len(responses) == 100 - len(bad)
        assert max(map(len, responses)) < 20


@pytest.mark.parametrize("first", ['"b,x,two', 'b,"x,two', 'b,x,"two', '"b",x,"two'])
@pytest.mark.parametrize("last", ["f,x,four", '"f","x","four"'])
def test_a_stray_quote_in_any_cell_drops_its_row(tmp_path: Path, first: str, last: str) -> None:
    entries = rows(
        tmp_path,
        f"{HEAD}a,x,one\n{first}\nc,x,1\n\ne,x,3\n{last}\n",
        context="dialogue",
        response="text",
    )
    assert [type(entry) for entry in entries] == [Dialogue, Malformed, *[Dialogue] * 3]
    assert f"{tmp_path / 'train.csv'}:3: " in str(entries[1])
    texts = [entry.turns[1].text for entry in entries[2:] if isinstance(entry, Dialogue)]
    assert texts == ["1", "3", "four"]


@pytest.mark.parametrize(
    ("empty", "ids", "named"),
    [
        ([2], "-abc", [2]),  # the first row of the table
        ([5], "a-bc", [5]),  # the last row of a
        ([6], "a-bc", [6]),  # the first row of b
        ([4, 9], "--c", [4, 9]),  # within a and within b
        ([5, 6, 7], "a---bc", [5, 6, 7]),
        ([7, 8], "a-c", [7]),
        ([14], "abc-", [14]),
        (list(range(2, 15)), "-" * 13, list(range(2, 15))),
    ],
)
@pytest.mark.parametrize("id", ["", "  "])
def test_an_empty_id_is_malformed(
    tmp_path: Path, id: str, empty: list[int], ids: str, named: list[int]
) -> None:
    table = dict(enumerate("aaaabbbbbcccc", start=2))
    content = "".join(f"{id if line in empty else table[line]},x,{line}\n" for line in table)
    entries = rows(tmp_path, HEAD + content)
    assert "".join(entry.id if isinstance(entry, Dialogue) else "-" for entry in entries) == ids
    messages = [entry.message for entry in entries if isinstance(entry, Malformed)]
    assert [message.partition(": ")[0] for message in messages] == [
        f"{tmp_path / 'train.csv'}:{n}" for n in named
    ]
    assert all("'dialogue'" in message for message in messages)
    turns = {
        turn.text: entry.id
        for entry in entries
        if isinstance(entry, Dialogue)
        for turn in entry.turns
    }
    assert turns == {
        str(line): table[line] for line in table if table[line] in ids and line not in empty
    }


def test_many_rows_without_an_id_are_all_counted(tmp_path: Path) -> None:
    lines = "".join(f",x,{number}\n" for number in range(3_000))
    first, *holes, last = rows(tmp_path, f"{HEAD}a,x,one\n{lines}b,x,two\n")
    assert isinstance(first, Dialogue)
    assert {type(hole) for hole in holes} == {Malformed}
    assert len(holes) == 3_000
    assert isinstance(last, Dialogue)


SHOPS = "Our shops:\n12 Main Street, A\n4 Oak Avenue, B\n1 Pine Road, C\nBye, all."


@pytest.mark.parametrize(
    "text", [SHOPS, "one\n\ntwo", "a,b\nd,e\ng,h", 'say "a,b"\nand "c,d"\nor', ",\n" * 5 + "x"]
)
@pytest.mark.parametrize("quoting", [csv.QUOTE_ALL, csv.QUOTE_MINIMAL])
def test_a_text_may_have_several_lines(tmp_path: Path, text: str, quoting: Literal[0, 1]) -> None:
    file = io.StringIO()
    csv.writer(file, quoting=quoting).writerows(
        [["context", "response"], ["Hi", text], [text, "Bye"]]
    )
    entries = rows(tmp_path, file.getvalue(), context="context", response="response")
    assert [
        [turn.text for turn in entry.turns] for entry in entries if isinstance(entry, Dialogue)
    ] == [
        ["Hi", text],
        [text, "Bye"],
    ]


GOOD = ["a,A,1", "a,B,2", "b,A,1", "b,B,2", "b,A,3", "c,A,1", "c,B,2"]


@pytest.mark.parametrize("bad", ['{},A,"stray', "{},A", '{},A,"x"y'])
@pytest.mark.parametrize("row", range(len(GOOD)))
def test_an_unreadable_row_drops_only_its_dialogue(tmp_path: Path, row: int, bad: str) -> None:
    lines = [bad.format(line[0]) if number == row else line for number, line in enumerate(GOOD)]
    entries = rows(tmp_path, HEAD + "".join(f"{line}\n" for line in lines))
    left = [entry.id for entry in entries if isinstance(entry, Dialogue)]
    assert left == [id for id in "abc" if id != GOOD[row][0]]
    assert len(entries) == 3


def test_an_unreadable_row_without_an_id_drops_the_one_before(tmp_path: Path) -> None:
    entries = rows(tmp_path, f'{HEAD}a,A,1\n"a,B,2\nb,A,1\nb,B,2\nc,A,1\n')
    assert [entry.id if isinstance(entry, Dialogue) else None for entry in entries] == [
        None,
        "b",
        "c",
    ]


def test_wrong_quotes_everywhere_are_rejected_early(tmp_path: Path) -> None:
    rest = "".join(f'7{n}","b\n' for n in range(50_000))
    with pytest.raises(
        UserError,
        match=r"train\.csv:\d+: too many rows of this table have wrong quotes; correct them",
    ):
        rows(tmp_path, f"dialogue,text\n{rest}", context="dialogue", response="text")


def test_a_row_joined_by_quotes_does_not_hide_the_next(tmp_path: Path) -> None:
    bad, good = rows(tmp_path, f'{HEAD}a,"x,one\nb,x,two"\n')
    assert isinstance(bad, Malformed)
    assert isinstance(good, Dialogue)


def test_an_unclosed_quote_uses_bounded_memory(tmp_path: Path) -> None:
    with (tmp_path / "train.csv").open("w") as file:
        file.write(f'{HEAD}a,x,"one\n')
        file.writelines(f"d{number},x,{'y' * 1000}\n" for number in range(5_000))
    tracemalloc.start()
    entries = Counter(type(entry) for entry in Csv(tmp_path).dialogues("train"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert entries == {Malformed: 1, Dialogue: 5_000}
    assert peak < 2 * 2**20


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_long_cell_is_read_as_it_is(tmp_path: Path, quote: str) -> None:
    (dialogue,) = rows(tmp_path, f"{HEAD}a,x,{quote}{'y' * 200_000}{quote}\n")
    assert isinstance(dialogue, Dialogue)
    assert len(dialogue.turns[0].text) == 200_000


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("dialogue,text\n", "no column 'speaker' among dialogue, text"),
        ("dialogue,speaker,text,text\n", "more than one column 'text'"),
        ("dialogue|speaker|text\n", r"no column 'dialogue' among dialogue\|speaker\|text"),
        ("dialogue,speaker,Text,TEXT\n", "more than one column 'text'"),
    ],
)
def test_missing_columns_are_reported(tmp_path: Path, head: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        rows(tmp_path, f"{head}a,x,one\n")
    assert f"{tmp_path / 'train.csv'}:1: " in str(caught.value)


@pytest.mark.parametrize(
    "head", ["dialogue;speaker;text\n", "Dialogue;SPEAKER; Text\n", "dialogue\tspeaker\tText\n"]
)
def test_delimiters_and_the_case_of_columns_are_recognised(tmp_path: Path, head: str) -> None:
    mark = "\t" if "\t" in head else ";"
    (dialogue,) = rows(tmp_path, head + mark.join(["a", "x", "one, two"]) + "\n")
    assert dialogue.turns == (Turn("x", "one, two"),)


def test_other_encoding_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_bytes(f"{HEAD}a,x,für\n".encode("cp1252"))
    with pytest.raises(UserError, match=r"set data\.corpus\.encoding, such as cp1252"):
        list(Csv(tmp_path).dialogues("train"))
    (dialogue,) = Csv(tmp_path, encoding="cp1252").dialogues("train")
    assert dialogue.turns[0].text == "für"


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_utf16_of_excel_is_read(
    tmp_path: Path, encoding: str, pack: Callable[[bytes], bytes]
) -> None:
    """Lines end as Excel ends them; U+0A0D and U+2028 hold the bytes of line ends, or end lines
    elsewhere.
    """
    suffix = ".gz" if pack is gzip.compress else ""
    content = pack(
        "Dialogue\tSpeaker\tText\r\na\tx\tfür \u0a0d\u2028 😀\r\na\ty\tja\r\n".encode("utf-16")
    )
    (tmp_path / f"train.tsv{suffix}").write_bytes(content)
    (dialogue,) = Csv(tmp_path, encoding=encoding).dialogues("train")
    assert dialogue.turns == (Turn("x", "für \u0a0d\u2028 😀"), Turn("y", "ja"))


def test_truncated_utf16_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_bytes(f"{HEAD}a,x,one\n".encode("utf-16")[:-1])
    with pytest.raises(
        UserError, match=r"train\.csv cannot be read to its end \('utf-16-le' codec"
    ):
        list(Csv(tmp_path).dialogues("train"))


def test_invalid_arguments_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="set both or neither"):
        Csv(tmp_path, context="asks")
    with pytest.raises(UserError, match="give one character"):
        Csv(tmp_path, delimiter="||")


@given(dialogues=st.lists(st.lists(st.tuples(CELL, CELL), min_size=1), min_size=1))
def test_tables_of_the_csv_module_are_read(
    tmp_path_factory: pytest.TempPathFactory, dialogues: list[list[tuple[str, str]]]
) -> None:
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL)
    writer.writerow(["dialogue", "speaker", "text"])
    writer.writerows([id, *turn] for id, turns in enumerate(dialogues) for turn in turns)
    folder = tmp_path_factory.mktemp("csv")
    for split in SPLITS:
        (folder / f"{split}.csv").write_bytes(out.getvalue().encode())
    entries = [
        [(turn.speaker, turn.text) for turn in entry.turns]
        for entry in Csv(folder).dialogues("train")
    ]
    assert entries == dialogues


def test_rows_of_dialogues_may_be_interleaved(tmp_path: Path) -> None:
    content = f"{HEAD}a,x,one\nb,y,two\n,z,lost\na,y,three\nb,x,four\nb\n"
    entries = rows(tmp_path, content, interleaved=True)
    dialogues = [entry for entry in entries if isinstance(entry, Dialogue)]
    assert [(entry.id, [turn.text for turn in entry.turns]) for entry in dialogues] == [
        ("a", ["one", "three"]),
        ("b", ["two", "four"]),
    ]
    messages = [entry.message for entry in entries if isinstance(entry, Malformed)]
    assert [f"train.csv:{line}" in text for line, text in zip((4, 7), messages, strict=True)]


def test_rows_may_be_json_objects(tmp_path: Path) -> None:
    content = """{"chat": 1, "by": {"name": "x"}, "text": "one, \\"so\\"", "more": [1]}
{"chat": 1, "by": {"name": "y"}, "text": null}

{"chat": 2, "by": {"name": "y"}, "text": ["two"]}
{"chat": 3, "by": {"name": "y"}}
{"chat": 4, "by": {"name": "y"}, "text": "four"}
{"chat": 4, "by": {"name":
{"chat": 5, "by": {"name": "x"}, "text": "five"}
"""
    keys = {"dialogue": "chat", "speaker": "by.name"}
    first, listed, absent, broken, last = rows(tmp_path, content, ".jsonl", **keys)
    assert isinstance(first, Dialogue)
    assert (first.id, first.turns) == ("1", (Turn("x", 'one, "so"'), Turn("y", "")))
    for entry, place in ((listed, 4), (absent, 5), (broken, 7)):
        assert isinstance(entry, Malformed)
        assert f"train.jsonl:{place}:" in entry.message
    assert isinstance(last, Dialogue)
    assert last.turns == (Turn("x", "five"),)
