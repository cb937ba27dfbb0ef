"""Formats and columns are detected; a file in no format is an error that names the nearest."""

from __future__ import annotations

import json
import re
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialog.errors import UserError
from dialog.start.formats.detection import detect
from dialog.start.start import read_corpus
from dialog.start.survey import survey

WHO = ("Anna", "Bo")


def turns(dialogue: int) -> list[tuple[str, str]]:
    return [(WHO[turn % 2], f"Message {turn} of {dialogue} , yes ?") for turn in range(4)]


def csv_rows(delimiter: str, names: list[str], *, order: str = "dialogue") -> str:
    rows = [
        [f"d{n}", f"2024-01-{turn + 1:02}", who, text.replace(delimiter, " ")]
        for n in range(20)
        for turn, (who, text) in enumerate(turns(n))
    ]
    if order == "time":
        rows.sort(key=lambda row: row[1])
    return "\n".join(delimiter.join(row) for row in [names, *rows]) + "\n"


def json_lines(turn: Callable[[str, str], object], key: str = "turns") -> str:
    return "".join(json.dumps({key: [turn(*one) for one in turns(n)]}) + "\n" for n in range(20))


def openai(dialogue: int) -> list[dict[str, str]]:
    roles = {"Anna": "user", "Bo": "assistant"}
    return [{"role": roles[who], "content": text} for who, text in turns(dialogue)]


COLUMNS = ["Ticket No", "Created at", "Sender", "Message body"]
TEXTS: dict[str, tuple[str, str, dict[str, object]]] = {
    "semicolons": (
        "a.csv",
        csv_rows(";", COLUMNS),
        {"name": "csv", "dialogue": "Ticket No", "speaker": "Sender", "text": "Message body"},
    ),
    "tabs in a text file": (
        "a.txt",
        csv_rows("\t", ["conversation_id", "timestamp", "role", "content"]),
        {"name": "csv", "dialogue": "conversation_id", "speaker": "role", "delimiter": "\t"},
    ),
    "bars, by time": (
        "a.csv",
        csv_rows("|", ["chatId", "date", "from", "text"], order="time"),
        {"name": "csv", "dialogue": "chatId", "delimiter": "|", "interleaved": True},
    ),
    "pairs": (
        "a.csv",
        "Question,Answer\n" + "".join(f"what {n} ?,this {n}\n" for n in range(20)),
        {"name": "csv", "context": "Question", "response": "Answer"},
    ),
    "json lines": (
        "a.jsonl",
        json_lines(lambda who, text: {"speaker": who, "text": text}),
        {"name": "jsonl"},
    ),
    "other keys": (
        "a.jsonl",
        json_lines(lambda who, text: {"from": who, "value": text}, "conversations"),
        {"name": "jsonl", "turns": "conversations", "speaker": "from", "text": "value"},
    ),
    "openai": (
        "a.jsonl",
        json_lines(
            lambda who, text: {"role": "user" if who == "Bo" else "assistant", "content": text},
            "messages",
        ),
        {"name": "messages"},
    ),
    "messages in an object": (
        "a.jsonl",
        "".join(
            json.dumps({"ts": n, "payload": {"messages": openai(n), "usage": {"tokens": 9}}}) + "\n"
            for n in range(20)
        ),
        {"name": "messages", "turns": "payload.messages"},
    ),
    "an array of messages a line": (
        "a.jsonl",
        "".join(json.dumps(openai(n)) + "\n" for n in range(20)),
        {"name": "messages"},
    ),
    "an array of texts a line": (
        "a.jsonl",
        "".join(json.dumps([text for _, text in turns(n)]) + "\n" for n in range(20)),
        {"name": "jsonl"},
    ),
    "a message a line, by time": (
        "a.jsonl",
        "".join(
            json.dumps({"ts": t, "session_id": n, "user": {"name": turns(n)[t][0]}, "content": "m"})
            + "\n"
            for t in range(4)
            for n in range(20)
        ),
        {
            "name": "csv",
            "dialogue": "session_id",
            "speaker": "user.name",
            "text": "content",
            "interleaved": True,
        },
    ),
    "a message in each record": (
        "a.json",
        json.dumps(
            [{"chat": f"d{n}", "role": w, "text": t} for n in range(20) for w, t in turns(n)]
        ),
        {"name": "csv", "dialogue": "chat", "speaker": "role", "text": "text"},
    ),
    "json array": (
        "a.json",
        json.dumps([{"prompt": f"p {n}", "completion": f"c {n}"} for n in range(20)], indent=1),
        {"name": "jsonl", "context": "prompt", "response": "completion"},
    ),
    "whatsapp": (
        "a.txt",
        "".join(f"{n + 1}.1.24, 10:00 - {who}: {t}\n" for n in range(20) for who, t in turns(n)),
        {"name": "whatsapp"},
    ),
    "names before texts": (
        "a.log",
        "\n\n".join("\n".join(f"{who}: {t}" for who, t in turns(n)) for n in range(20)),
        {"name": "text", "speakers": True},
    ),
    "blocks": (
        "a.txt",
        "\n\n".join("\n".join(t.replace(":", "") for _, t in turns(n)) for n in range(20)),
        {"name": "text"},
    ),
    "telegram": (
        "result.json",
        json.dumps(
            {
                "id": 1,
                "messages": [
                    {
                        "id": n * 9 + turn, "type": "message", "from": who, "text": text,
                        "date": f"2024-01-{n + 1:02}T10:0{turn}:00",
                    }
                    for n in range(20)
                    for turn, (who, text) in enumerate(turns(n))
                ],
            }
        ),
        {"name": "telegram"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_formats(tmp_path: Path, name: str) -> None:
    file, text, expected = TEXTS[name]
    (tmp_path / file).write_text(text, encoding="utf-8")
    component = detect(tmp_path / file, {}).component
    assert expected.items() <= component.items()
    found = survey(read_corpus(component, tmp_path / file))
    assert found.kept == 20
    assert found.malformed == []
    assert len(found.speakers) == 2


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    text = csv_rows(",", COLUMNS).replace("yes", "schön")
    (tmp_path / "a.csv").write_text(text, encoding=encoding)
    found = survey(read_corpus(detect(tmp_path / "a.csv", {}).component, tmp_path / "a.csv"))
    assert found.kept == 20
    assert "schön" in found.shown[0].turns[0].text


def test_folders_and_archives(tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.mkdir()
    for n in range(20):
        (texts / f"{n}.txt").write_text("\n".join(t for _, t in turns(n)))
    assert detect(texts, {}).component == {"name": "text"}
    _, chat, _ = TEXTS["whatsapp"]
    for name, member, content, corpus in (
        ("w.zip", "_chat.txt", chat, "whatsapp"),
        ("t.zip", "export/result.json", "{}", "telegram"),
        ("s.zip", "general/2024-01-01.json", "[]", "slack"),
    ):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr(member, content)
        assert detect(tmp_path / name, {}).component == {"name": corpus}


def test_what_the_user_sets_is_kept(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(csv_rows(",", ["x", "y", "Sender", "z"], order="time"))
    with pytest.raises(UserError, match=r"no column of dialogues.*data\.corpus"):
        detect(tmp_path / "a.csv", {})
    component = detect(tmp_path / "a.csv", {"dialogue": "x", "gap": 1}).component
    assert (component["dialogue"], component["text"], component["gap"]) == ("x", "z", 1)
    assert detect(tmp_path / "a.csv", {"name": "text"}).component == {"name": "text"}


@pytest.mark.parametrize(
    ("file", "header"),
    [("a.csv", "Akte;Zeit;Absender;Kanal;Nachricht"), ("a.txt", "Akte;t;who;k;body")],
)
def test_ids_in_an_unknown_column_are_guessed(tmp_path: Path, file: str, header: str) -> None:
    rows = [(f"d{n}", f"{n}{t}", who, "web") for n in range(20) for t, who in enumerate("ABAB")]
    names = header.split(";")
    lines = [header, *(";".join([*row, f"some text of {row[1]} ."]) for row in rows)]
    path = tmp_path / file
    path.write_text("\n".join(lines))
    found = detect(path, {})
    chosen = [found.component[role] for role in ("dialogue", "speaker", "text")]
    assert chosen == [names[0], names[2], names[4]]
    assert "guess" in found.columns["dialogue"]
    # ids that do not repeat, and blank lines between blocks, which a plain text may have
    path.write_text(
        "\n".join([header, "", *(line + "\n" * (n % 2) for n, line in enumerate(lines[1::4]))])
    )
    with pytest.raises(UserError, match=r"data\.corpus\.dialogue=") as caught:
        detect(path, {})
    assert "\n" not in str(caught.value)


def test_unused_keys_are_named_if_no_key_names_speakers(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json_lines(lambda who, text: {"p": who, "text": text, "sec": "1"}))
    shown = detect(path, {}).columns["speaker"]
    assert "p, sec" in shown
    assert "data.corpus.speaker" in shown
    path.write_text(json_lines(lambda who, text: {"who": who, "text": text}))
    assert detect(path, {}).component["speaker"] == "who"


@pytest.mark.parametrize("settings", [{}, {"name": "csv", "dialogue": "Ticket No"}])
@pytest.mark.parametrize("role", ["dialogue", "speaker", "text"])
def test_a_wrong_column_is_named(tmp_path: Path, settings: dict[str, str], role: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(csv_rows(";", COLUMNS))
    given = {"speaker": "Sender", "text": "Message body"} if settings else {}
    with pytest.raises(UserError, match=r"Sendr.*Ticket No, Created at, Sender"):
        survey(read_corpus(detect(path, {**settings, **given, role: "Sendr"}).component, path))
    log = tmp_path / "a.jsonl"
    log.write_text(
        "".join(f'{{"c": {n // 4}, "role": "r{n % 2}", "text": "t"}}\n' for n in range(20))
    )
    with pytest.raises(UserError, match=r"Sendr.*c, role, text"):
        survey(read_corpus(detect(log, {role: "Sendr"}).component, log))
    found = detect(path, {"dialogue": "ticket no", "speaker": "SENDER"})
    assert found.component["dialogue"] == "Ticket No"
    assert found.component["speaker"] == "Sender"


@pytest.mark.parametrize("header", ["Nr;Name;Absender;Nachricht", "Nr;Absender;Name;Nachricht"])
def test_roles_are_the_speakers_rather_than_names(tmp_path: Path, header: str) -> None:
    lines = [header.replace("Nr", "Ticket-Nr")]
    for n in range(30):
        for turn in range(4):
            who = {"Absender": ("Kunde", "Agent")[turn % 2], "Name": f"P{n % 7}{turn % 2}"}
            first, second = header.split(";")[1:3]
            lines.append(f"T{n};{who[first]};{who[second]};some text {turn} .")
    path = tmp_path / "a.csv"
    path.write_text("\n".join(lines))
    found = detect(path, {})
    assert found.component["speaker"] == "Absender"
    assert "Name" in found.columns["speaker"]
    # two values, but of the whole dialogue: not who speaks
    path.write_text("\n".join(lines).replace(";Kunde", ";web").replace(";Agent", ";web"))
    assert detect(path, {}).component["speaker"] == "Name"


def test_a_column_with_one_speaker_is_the_speakers(tmp_path: Path) -> None:
    rows = "".join(f"d{n // 2},Anna,Hi {n} you\n" for n in range(20))
    (tmp_path / "a.csv").write_text(f"dialogue,speaker,text\n{rows}")
    assert detect(tmp_path / "a.csv", {}).component["speaker"] == "speaker"


def database(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("create table t (a text)")
    connection.commit()
    connection.close()


def workbook(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("[Content_Types].xml", "<a/>")


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ({"turns": "payload.message"}, {"payload.message", "payload.messages", "ts"}),
        ({"turns": "ts"}, {"ts", "payload.messages"}),
        ({"dialogue": "session"}, {"session", "ts"}),
        ({"text": "body"}, {"body", "role", "content"}),
    ],
)
def test_a_key_that_does_not_exist_is_named(
    tmp_path: Path, given: dict[str, str], keys: set[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(TEXTS["messages in an object"][1])
    with pytest.raises(UserError) as caught:
        detect(path, given)
    assert keys <= set(re.findall(r"[\w.]+", str(caught.value)))


def test_a_key_that_few_records_have_can_be_named(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    records: list[dict[str, object]] = [
        {"id": n // 4, "from": "ab"[n % 2], "text": "Hi"} for n in range(80)
    ]
    records[0] |= {"case": "x"}
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    component = detect(path, {"dialogue": "case"}).component
    assert (component["dialogue"], component["speaker"]) == ("case", "from")


JSON_FILES = {
    "an object of dialogues": ("a.json", json.dumps({"data": [{"turns": ["a", "b"]}] * 20})),
    "an object of arrays": ("a.json", json.dumps({"data": [openai(n) for n in range(20)]})),
    "an object of rows": (
        "a.json",
        json.dumps({"data": [{"chat": n // 2, "text": "a"} for n in range(20)], "messages": []}),
    ),
    "long line": ("a.json", json.dumps({"data": [{"turns": ["a, b: c", "b"]}] * 20_000})),
    "events": ("a.jsonl", '{"ts": 1, "event": "login"}\n' * 20),
    "broken line": ("a.jsonl", '{"turns": ["a", "b"]}\n{"turns": ["a"\n' * 20),
    "numbers": ("a.jsonl", '{"turns": ["a", "b"]}\n' + "1\n" * 20),
    "array without a suffix": ("a.dat", "[\n{},\n{}\n]"),
}


@pytest.mark.parametrize("name", JSON_FILES)
def test_a_file_of_json_fails_as_json_only(tmp_path: Path, name: str) -> None:
    file, text = JSON_FILES[name]
    (tmp_path / file).write_text(text)
    with pytest.raises(UserError) as caught:
        detect(tmp_path / file, {})
    message = str(caught.value).removeprefix(str(tmp_path))
    assert "JSON" in message
    for other in ("CSV", "WhatsApp", "columns", "blank lines", "Telegram,"):
        assert other not in message
    if name == "broken line":
        assert "line 2" in message
    if "data" in text:
        assert "'data'" in message


def test_a_header_without_rows_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("dialogue,speaker,text\n")
    with pytest.raises(UserError, match="row") as caught:
        detect(tmp_path / "a.csv", {})
    assert "different" not in str(caught.value)


BAD: dict[str, tuple[Any, str]] = {
    "nothing": (None, "does not exist"),
    "empty": (b" \n\n", "is empty"),
    "binary": (b"ab\0\1\2" * 100, "binary"),
    "pdf": (b"%PDF-1.4 ...", "PDF"),
    "database": (database, "database"),
    "workbook": (workbook, "workbook"),
    "prose": (b"Call me Ishmael. Some years ago\nnever mind how long precisely\n", "tried"),
    "wide": (",".join(f"c{n}" for n in range(40_000)).encode() + b"\n1\n", r"\d{2},\d{3} columns"),
    "one column": (b"name\nAnna\nBo\n", "nearest"),
    "broken json": (b'{"turns": [\n', "JSON"),
    "no names": (
        b"1,Hi there how are you,x y\n1,Fine and you,x y\n2,b c,x y\n",
        "first row|column",
    ),
    "empty folder": (Path.mkdir, "no files"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_files_are_errors_of_one_line(tmp_path: Path, name: str) -> None:
    content, message = BAD[name]
    path = tmp_path / "bad.dat"
    if callable(content):
        content(path)
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        detect(path, {})
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
