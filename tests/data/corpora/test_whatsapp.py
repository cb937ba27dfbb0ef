"""WhatsApp's exports: dates and clocks of phones, media, notices, deletions, edits, pauses."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialog.data.corpora.whatsapp import WhatsApp
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Malformed, Turn
from dialog.errors import UserError


def read(path: Path, text: str, **arguments: Any) -> list[Entry]:
    """All dialogues of a chat, in the order of their lines."""
    path.write_bytes(text.encode())
    corpus = WhatsApp(path, **arguments)
    entries = [entry for split in SPLITS for entry in corpus.dialogues(split)]
    return sorted(
        entries, key=lambda entry: int(entry.place.rpartition(":")[2] if entry_is(entry) else 0)
    )


def entry_is(entry: Entry) -> bool:
    return isinstance(entry, Dialogue)


def turns(entries: list[Entry]) -> list[list[tuple[str, str]]]:
    assert all(isinstance(entry, Dialogue) for entry in entries), entries
    return [
        [(turn.speaker, turn.text) for turn in entry.turns]
        for entry in entries
        if isinstance(entry, Dialogue)
    ]


HEADS = {
    "Android, Germany": ("31.12.21, 23:58 - ", "01.01.22, 00:01 - "),
    "Android, United States": ("12/31/21, 11:58\u202fPM - ", "1/1/22, 12:01\u202fAM - "),
    "Android, United Kingdom": ("31/12/2021, 23:58 - ", "01/01/2022, 00:01 - "),
    "Android, India": ("31/12/21, 11:58 pm - ", "01/01/22, 12:01 am - "),
    "Android, Spain": ("31/12/21 23:58 - ", "1/1/22 0:01 - "),
    "Android, Mexico": ("31/12/21, 11:58 p.\xa0m. - ", "01/01/22, 12:01 a.\xa0m. - "),
    "Android, France": ("31/12/2021 à 23:58 - ", "01/01/2022 à 00:01 - "),
    "Android, Netherlands": ("31-12-2021 23:58 - ", "01-01-2022 00:01 - "),
    "Android, Sweden": ("2021-12-31 23:58 - ", "2022-01-01 00:01 - "),
    "Android, Finland": ("31.12.2021 klo 23.58 - ", "1.1.2022 klo 0.01 - "),
    "Android, Korea": ("2021. 12. 31. 오후 11:58 - ", "2022. 1. 1. 오전 12:01 - "),
    "Android, China": ("2021/12/31 下午11:58 - ", "2022/1/1 上午12:01 - "),
    "Android, Egypt": (
        "٣١\u200f/١٢\u200f/٢٠٢١, ١١:٥٨ م - ",
        "١\u200f/١\u200f/٢٠٢٢, ١٢:٠١ ص - ",
    ),
    "iPhone, Germany": ("[31.12.21, 23:58:01] ", "[01.01.22, 00:01:02] "),
    "iPhone, United States": ("[12/31/21, 11:58:01\u202fPM] ", "[1/1/22, 12:01:02\u202fAM] "),
    "iPhone, Brazil": ("[31/12/2021 23:58:01] ", "[01/01/2022 00:01:02] "),
    "iPhone, Japan": ("[2021/12/31 23:58:01] ", "[2022/01/01 0:01:02] "),
}


@pytest.mark.parametrize("phone", HEADS)
def test_phones_of_many_countries(tmp_path: Path, phone: str) -> None:
    one, two = HEADS[phone]
    text = f"{one}Anna: Happy new year !\n{two}Bo: Not yet : wait\nthree minutes\n"
    (dialogue,) = turns(read(tmp_path / "chat.txt", text))
    assert dialogue == [("Anna", "Happy new year !"), ("Bo", "Not yet : wait\nthree minutes")]


def test_the_order_of_day_and_month_follows_the_file(tmp_path: Path) -> None:
    """Neither date decides alone: the order is the one in which time does not run back."""
    days = "".join(f"{day}/2/22, 10:00 - Anna: {day}\n" for day in range(1, 12))
    assert len(read(tmp_path / "days.txt", days)) == 11
    months = "".join(f"2/{day}/22, 10:00 - Anna: {day}\n" for day in range(1, 12))
    ordered = turns(read(tmp_path / "months.txt", months, gap_hours=25.0))
    assert len(ordered) == 1
    assert len(read(tmp_path / "months.txt", months, gap_hours=25.0, dates="day")) == 11


def test_what_has_no_text_is_left_out_and_counted(tmp_path: Path) -> None:
    text = (
        "1/2/22, 10:00 - Messages and calls are end-to-end encrypted.\n"
        '1/2/22, 10:00 - Anna created group "Trip: Rome"\n'
        "1/2/22, 10:01 - Anna: <Media omitted>\n"
        "1/2/22, 10:01 - Anna: <Medien ausgeschlossen>\n"
        "1/2/22, 10:02 - Bo: IMG-20220201-WA0001.jpg (file attached)\nNice picture\n"
        "1/2/22, 10:03 - Anna: This message was deleted\n"
        "1/2/22, 10:03 - Anna: Du hast diese Nachricht gelöscht.\n"
        "1/2/22, 10:04 - Anna: null\n"
        "1/2/22, 10:05 - Anna: I will come <This message was edited>\n"
        "1/2/22, 10:06 - Bo: \n"
    )
    (entry,) = read(tmp_path / "chat.txt", text)
    assert isinstance(entry, Dialogue)
    assert entry.turns == (Turn("Bo", "Nice picture"), Turn("Anna", "I will come"))
    assert entry.meta["left_out"] == {"notices": 2, "media": 5, "deleted messages": 2}
    assert "2 notices" in str(entry.meta["warning"])


def test_marks_of_an_iphone(tmp_path: Path) -> None:
    head = "\u200e[01.02.22, 10:00:00] "
    text = (
        f"{head}Trip: \u200eMessages and calls are end-to-end encrypted. No one can read them.\n"
        f"{head}Anna: \u200eimage omitted\n"
        f"{head}~\u202fBo: Look !\n"
        f"{head}\u202a+49 170\u202c: \u200e<attached: 00001-PHOTO.jpg>\n"
        f"{head}Anna: \u200eThis message was deleted.\n"
        f"{head}Anna: plan.pdf • \u200e2 pages \u200edocument omitted\n"
        f"{head}Anna: Yes \u200e<This message was edited>\n"
    )
    (entry,) = read(tmp_path / "chat.txt", text)
    assert isinstance(entry, Dialogue)
    assert entry.turns == (Turn("Bo", "Look !"), Turn("Anna", "Yes"))
    assert entry.meta["left_out"] == {"notices": 1, "media": 3, "deleted messages": 1}


def test_bad_lines_are_malformed_with_their_line(tmp_path: Path) -> None:
    path = tmp_path / "chat.txt"
    path.write_bytes(
        b"Some title\nand more\n"
        b"31/12/21, 10:00 - Anna: Hi\n"
        b"31/13/21, 10:01 - Bo: no such month\n"
        b"31/12/21, 10:02 - Bo: Hello\n\xff\xfe\nagain\n"
    )
    entries = list(WhatsApp(path).dialogues("train"))
    places = [entry.message.partition(": ")[0] for entry in entries if isinstance(entry, Malformed)]
    assert places == [f"{path}:{line}" for line in (1, 4, 6)]
    (dialogue,) = turns([entry for entry in read_all(path) if isinstance(entry, Dialogue)])
    assert dialogue == [("Anna", "Hi"), ("Bo", "Hello\nagain")]


def read_all(path: Path) -> list[Entry]:
    return [entry for split in SPLITS for entry in WhatsApp(path).dialogues(split)]


def test_an_unknown_word_beside_a_12_hour_clock_is_named(tmp_path: Path) -> None:
    (entry,) = read(tmp_path / "chat.txt", "31/12/21, 11:00 xy - Anna: Hi\n")
    assert isinstance(entry, Malformed)
    assert "11:00 xy" in entry.message


def test_pauses_divide_a_chat(tmp_path: Path) -> None:
    text = "".join(f"1/2/22, {hour}:00 - Anna: {hour}\n" for hour in (8, 9, 12, 16))
    assert [len(each) for each in turns(read(tmp_path / "a.txt", text))] == [3, 1]
    assert [len(each) for each in turns(read(tmp_path / "b.txt", text, gap_hours=1))] == [2, 1, 1]
    with pytest.raises(UserError, match="gap_hours"):
        WhatsApp(tmp_path, gap_hours=0)
    with pytest.raises(UserError, match="dates"):
        WhatsApp(tmp_path, dates="year")


def test_laws(check_laws: Callable[..., Any]) -> None:
    days = "".join(
        f"{day}.2.22, 10:00 - Anna: Hi {day}\n{day}.2.22, 10:01 - Bo: Ho {day}\n"
        for day in range(1, 29)
    )
    splits = check_laws(WhatsApp, {"WhatsApp Chat with Bo.txt": days, "more/b.txt": days})
    assert sum(map(len, splits.values())) == 56


def test_an_archive_is_read_as_its_folder(tmp_path: Path) -> None:
    text = "[31.12.21, 23:58:01] Anna: Hi\n[31.12.21, 23:59:01] Bo: Ho\n"
    with zipfile.ZipFile(tmp_path / "chat.zip", "w") as archive:
        archive.writestr("_chat.txt", text)
        archive.writestr("__MACOSX/._chat.txt", "x")
        archive.writestr("photo.jpg", "x")
    assert turns(read_all(tmp_path / "chat.zip")) == turns(read(tmp_path / "_chat.txt", text))
    (tmp_path / "broken.zip").write_bytes((tmp_path / "chat.zip").read_bytes()[:-30])
    with pytest.raises(UserError, match=r"broken\.zip"):
        read_all(tmp_path / "broken.zip")


def test_a_text_without_messages_is_an_error(tmp_path: Path) -> None:
    (entry,) = read(tmp_path / "notes.txt", "Hello\nthere\n")
    assert isinstance(entry, Malformed)
    with pytest.raises(UserError, match="holds no dialogue"):
        read(tmp_path / "empty.txt", "")
