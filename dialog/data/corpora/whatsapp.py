"""WhatsApp's exported chats, of phones in any of the usual formats of dates."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from dialog.data.corpora.parsing.chat_log import (
    DELETED,
    GAP_HOURS,
    MEDIA,
    NOTICES,
    ChatItem,
    ChatMessage,
    LeftOut,
    dialogues_of,
)
from dialog.data.corpora.parsing.exports import ExportCorpus, ExportedFile
from dialog.data.corpora.parsing.lines import decode_line, line_number
from dialog.data.dialogue import Entry, Malformed
from dialog.data.reading.files import stem
from dialog.errors import UserError

HINT = "it should hold chats that WhatsApp exported, such as `31/12/21, 23:59 - Anna: Hi`"
PATTERN = "*.txt"
MARK = "\u200e"
"""Left-to-right mark; on iPhones it begins the text of media and notices."""
MARKS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
HEAD = re.compile(
    r"(?P<bracket>\[)?"
    r"(?P<first>\d{1,4})\s?[./\-年년]\s?(?P<second>\d{1,2})\s?[./\-月월]\s?(?P<third>\d{1,4})[.日일]?"
    r"[,،]?\s*(?P<before>[^\W\d_][^\d\]]{0,11}?)?\s*"
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<second_of_time>\d{2}))?"
    r"\s?(?P<after>[^\W\d_][^\d\]\-–—]{0,11}?)?"
    r"(?(bracket)\]\s?|\s[-–—]\s)"
)
"""Date and time before a message: in brackets on iPhones, before a dash on Android."""
ORDERS = {"day": ("third", "second", "first"), "month": ("third", "first", "second")}
"""Fields of year, month and day, by the field that comes first."""
YEAR_FIRST = ("first", "second", "third")
MORNING = {"am", "上午", "午前", "오전", "ص", "πμ", "de", "sa", "凌晨", "早上", "öö", "fm"}
EVENING = {"pm", "下午", "午後", "오후", "م", "μμ", "du", "ch", "中午", "晚上", "ös", "em"}
AT = {"à", "um", "at", "às", "kl", "ore", "в", "o", "u", "a las", "klo", "uhr"}
"""Words beside the time that do not change it."""
NAME = re.compile(r"([^:\n\"“”„«»]{1,80}):(?: |$)")
"""Speaker before a text; a name with quotation marks is part of a notice."""
MEDIA_LINE = re.compile(rf"{MARK}?<[^<>\n]{{3,80}}>|\S[^\n]*\.\w{{2,4}} \([^()\n]{{3,40}}\)|null")
"""`<Media omitted>`, `IMG-1.jpg (file attached)`, and photos that can be viewed once."""
EDITED = re.compile(
    rf"\s*{MARK}?<[^<>\n]*(?:edited|bearbeitet|edit[aó]d?|modifi|bewerkt|изменен|düzenlendi|edytowan"
    r"|diedit|編集|编辑|編輯|수정|تعديل)[^<>\n]*>$",
    re.IGNORECASE,
)
DELETIONS = frozenset(
    {
        "this message was deleted", "you deleted this message", "diese nachricht wurde gelöscht",
        "du hast diese nachricht gelöscht", "se eliminó este mensaje", "eliminaste este mensaje",
        "este mensaje fue eliminado", "ce message a été supprimé", "vous avez supprimé ce message",
        "mensagem apagada", "esta mensagem foi apagada", "você apagou esta mensagem",
        "questo messaggio è stato eliminato", "hai eliminato questo messaggio",
        "dit bericht is verwijderd", "je hebt dit bericht verwijderd", "сообщение удалено",
        "данное сообщение удалено", "вы удалили данное сообщение", "bu mesaj silindi",
        "bu mesajı sildiniz", "ta wiadomość została usunięta", "pesan ini telah dihapus",
        "anda telah menghapus pesan ini", "このメッセージは削除されました", "此消息已删除",
        "此訊息已刪除", "삭제된 메시지입니다", "تم حذف هذه الرسالة",
    }
)  # fmt: skip
SHORT_NOTICE = 3
"""Words up to which a marked text of an iPhone is an omitted medium, such as `image omitted`."""


class WhatsApp(ExportCorpus):
    """Read chats that WhatsApp exported: a text file, the zip archive of an iPhone, or a folder of
    them.

    A line that begins with a date and a time begins a message, `31/12/21, 23:59 - Anna: Hi` on
    Android and `[31.12.21, 23:59:59] Anna: Hi` on iPhones; other lines continue the message before.
    Dates may be separated by `/`, `.` or `-`, and clocks have 12 or 24 hours. Whether the day or
    the month comes first is decided for each file: the order with the fewest impossible dates, then
    the fewest steps back in time, then the shorter time from the first message to the last.

    Notices (no speaker), media and deleted messages are left out and counted; the mark of an edited
    message is removed. Deletions and edits are recognised in the 15 languages listed in this file.
    Messages between pauses are a dialogue with the id `<chat>-<line>`, and
    `parsing.splits.split_by_hash` divides the dialogues.

    Args:
        path: The file or the folder.
        gap_hours: Longest pause within a dialogue; the default is more than a meal or a meeting and
            less than a night.
        dates: What a date begins with, `day` or `month`; null decides by the file. A year of four
            digits may always come first.
    """

    def __init__(
        self, path: Path | None, *, gap_hours: float = GAP_HOURS, dates: str | None = None
    ) -> None:
        super().__init__(
            path,
            "whatsapp",
            "an exported chat (.txt or .zip), or a folder of them",
            pattern=PATTERN,
            hint=HINT,
            gap_hours=gap_hours,
        )
        if dates not in (None, *ORDERS):
            raise UserError(f"corpus whatsapp: dates is {dates!r}; give day or month")
        self.dates = dates

    def entries(self) -> Iterator[Entry]:
        """Yield the dialogues of all splits, chat by chat."""
        for file in self.exported():
            yield from dialogues_of(stem(Path(file.name)), self._items(file), self.gap)

    def _items(self, file: ExportedFile) -> Iterator[ChatItem]:
        messages: list[DatedLines | Malformed] = list(_messages(file))
        dated = [message for message in messages if isinstance(message, DatedLines)]
        clock = Clockwork.of([message.head for message in dated], self.dates)
        for message in messages:
            if isinstance(message, Malformed):
                yield message
            else:
                yield from _classified(message, clock)


class DatedLines(NamedTuple):
    """A message: the match of its date and time, and its lines after them."""

    place: str
    head: re.Match[str]
    lines: list[str]


def _messages(file: ExportedFile) -> Iterator[DatedLines | Malformed]:
    current: DatedLines | None = None
    begun = False
    for place, raw in file.lines():
        try:
            line = decode_line(raw, place)
        except UserError as error:
            yield Malformed(str(error))
            continue
        head = HEAD.match(MARKS.sub("", line))
        if head is not None:
            if current is not None:
                yield current
            current = DatedLines(place, head, [_after(line, head.end())])
        elif current is not None:
            current.lines.append(line)
        elif line.strip() and not begun:
            begun = True
            yield Malformed(f"{place}: no date and time before the first message; {HINT}")
    if current is not None:
        yield current


def _after(line: str, length: int) -> str:
    """Return what follows the first `length` characters of a line, marks not counted."""
    for index, char in enumerate(line):
        if not length:
            return line[index:]
        length -= not MARKS.match(char)
    return ""


def _classified(message: DatedLines, clock: Clockwork) -> Iterator[ChatItem]:
    """Yield a message with text, what is left out of it, or its error."""
    place = message.place
    named = NAME.match(message.lines[0])
    speaker = MARKS.sub("", named[1]).lstrip("~ \xa0\u202f").strip() if named else ""
    if named is None or not speaker:
        yield LeftOut(place, NOTICES)
        return
    seconds = clock.seconds(message.head)
    if seconds is None:
        text = message.head[0].strip()
        yield Malformed(f"{place}: {text!r} is no date and time; correct it, or set {clock.advice}")
        return
    first = message.lines[0][named.end() :]
    others = message.lines[1:]
    if MEDIA_LINE.fullmatch(first.strip()) or not "".join([first, *others]).strip():
        yield LeftOut(place, MEDIA)
        first = ""
    elif first.startswith(MARK) and not EDITED.fullmatch(first):
        deleted = _is_deletion(first)
        medium = len(first.split()) <= SHORT_NOTICE
        yield LeftOut(place, DELETED if deleted else MEDIA if medium else NOTICES)
        return
    elif (
        f" • {MARK}" in first
    ):  # an iPhone's document: its name, its pages, and that it is left out
        yield LeftOut(place, MEDIA)
        return
    text = EDITED.sub("", "\n".join([first, *others]).strip()).replace(MARK, "").strip()
    if text and _is_deletion(text):
        yield LeftOut(place, DELETED)
    elif text:
        yield ChatMessage(place, line_number(place), seconds, speaker, text)


def _is_deletion(text: str) -> bool:
    return MARKS.sub("", text).strip(" .。").casefold() in DELETIONS


class Clockwork:
    """Read dates and times in the order and with the clock of one file.

    Args:
        order: Fields of year, month and day, unless a date begins with a year.
        has_24_hours: An hour after 12 occurs, so the clock has 24 hours, and unknown words beside
            a time are ignored.
    """

    def __init__(self, order: str, *, has_24_hours: bool) -> None:
        self.order = ORDERS[order]
        self.has_24_hours = has_24_hours
        others = [name for name in ORDERS if name != order]
        self.advice = f"data.corpus.dates={others[0]}"

    @classmethod
    def of(cls, heads: list[re.Match[str]], dates: str | None) -> Clockwork:
        """Choose the order of dates; see `WhatsApp`."""
        long_day = any(int(head["hour"]) > 12 for head in heads)
        candidates = [cls(order, has_24_hours=long_day) for order in ([dates] if dates else ORDERS)]
        return min(candidates, key=lambda clock: clock._faults(heads))

    def _faults(self, heads: list[re.Match[str]]) -> tuple[int, int, float]:
        times = [self.seconds(head) for head in heads]
        known = [time for time in times if time is not None]
        back = sum(later < earlier for earlier, later in pairwise(known))
        span = max(known, default=0.0) - min(known, default=0.0)
        return len(times) - len(known), back, span

    def seconds(self, head: re.Match[str]) -> float | None:
        """Return the seconds since 1970 of a date and time without a time zone; None if they do not
        exist.
        """
        fields = YEAR_FIRST if len(head["first"]) == 4 else self.order
        year, month, day = (int(head[field]) for field in fields)
        hour = self._hour(head)
        try:
            time = datetime(
                year + 2000 if year < 100 else year,
                month,
                day,
                -1 if hour is None else hour,
                int(head["minute"]),
                int(head["second_of_time"] or 0),
            )
        except ValueError:
            return None
        return (time - datetime(1970, 1, 1)).total_seconds()

    def _hour(self, head: re.Match[str]) -> int | None:
        """Return the hour from 0 to 23; None with an unknown word on a clock of 12 hours."""
        hour = int(head["hour"])
        for word in (head["before"], head["after"]):
            plain = re.sub(r"[\s.·]", "", word or "").casefold()
            if plain in EVENING:
                return hour % 12 + 12
            if plain in MORNING:
                return hour % 12
            at = not plain or (word or "").strip(" .").casefold() in AT
            if not at and not self.has_24_hours:
                return None
        return hour
