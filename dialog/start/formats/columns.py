"""Guess which columns of a table, or keys of JSON records, hold dialogue, speaker and text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean

from dialog.report.terminal import truncate

TEXT = (
    "text", "message", "content", "body", "utterance", "value", "msg", "comment", "sentence",
    "nachricht", "mensaje", "texte", "testo", "bericht",
)  # fmt: skip
SPEAKER = (
    "speaker", "sender", "role", "from", "author", "user", "participant", "username", "name", "by",
    "agent", "person", "who", "sprecher", "absender",
)  # fmt: skip
DIALOGUE = (
    "dialogue", "dialog", "conversation", "ticket", "session", "thread", "chat", "case",
    "conv", "room", "call", "gespräch", "id",
)  # fmt: skip
"""Words of the names of columns, the likeliest first."""

NUMBERS = {"id", "no", "nr", "number", "num", "key"}
OTHERS = {"time", "date", "timestamp", "created", "type", "count", "length", "lang", "language"}
"""Words that name another column, such as `message_id` and `sender_type`."""

PAIRS = (
    ("context", "response"), ("question", "answer"), ("prompt", "completion"),
    ("prompt", "response"), ("input", "output"), ("instruction", "output"),
    ("instruction", "response"), ("query", "response"), ("query", "answer"), ("query", "reply"),
    ("message", "reply"), ("message", "response"), ("customer", "agent"), ("user", "assistant"),
    ("user", "bot"), ("human", "assistant"), ("source", "target"), ("q", "a"),
)  # fmt: skip
"""Names of the two columns of a table with a pair in each row."""

FEWEST_DIALOGUES = 10
"""Distinct values from which a column without a known name may hold ids of dialogues."""

LISTED = 80
"""Characters of the names of columns that are shown."""

MOST_SPEAKERS = 0.5
"""Fraction of the rows from which so many different values name no speakers."""


def name_words(name: str) -> list[str]:
    """Return the words of a name in lower case: `messageBody` and `Message body` have two."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return re.findall(r"[^\W\d_]+", spaced.casefold())


def pair_of(names: Sequence[str]) -> tuple[str, str] | None:
    """Return the names of the first and the second turn, if each row is a pair."""
    by_words = {"".join(name_words(name)): name for name in names}
    for first, second in PAIRS:
        if first in by_words and second in by_words:
            return by_words[first], by_words[second]
    return None


def named(names: Iterable[str], words: Sequence[str], *, numbers: bool) -> list[str]:
    """Return the names that have one of the words, the likeliest first.

    Args:
        names: Names of columns or keys.
        words: Words, the likeliest first.
        numbers: Whether the name may say that the column holds numbers, as `chat_id`.
    """
    ranked = []
    for name in names:
        own = name_words(name)
        places = [place for place, word in enumerate(words) if word in own]
        wrong = OTHERS.intersection(own) or (not numbers and NUMBERS.intersection(own))
        if places and not wrong:
            ranked.append((min(places), len(own), name))
    return [name for _, _, name in sorted(ranked)]


def text_column(rows: Sequence[Mapping[str, str]], names: Sequence[str]) -> str | None:
    """Return the column of texts: by its name, else the one with the longest cells of several
    words.
    """
    found = named(names, TEXT, numbers=False)
    if found:
        return max(found, key=lambda name: (_mean_length(rows, name) > 0, -found.index(name)))
    wordy = [name for name in names if fmean(" " in row[name].strip() for row in rows) > 0.5]
    return max(wordy, key=lambda name: _mean_length(rows, name), default=None)


def speaker_columns(
    rows: Sequence[Mapping[str, str]], names: Sequence[str], dialogue: str | None
) -> list[str]:
    """Return the columns that may name the speakers, the likeliest first: by its name, with several
    values, none of which is that of its row only, else with a single value.

    Of several that change within dialogues, one with two values is the likeliest: it holds roles,
    such as customer and agent, and another one may hold their names.
    """
    candidates = named(names, SPEAKER, numbers=True)
    values = {name: len({row[name] for row in rows}) for name in candidates}
    most = max(2, MOST_SPEAKERS * len(rows))
    several = [name for name in candidates if 1 < values[name] <= most]
    changing = [name for name in several if dialogue and _changes(rows, name, dialogue) >= 0.5]
    if changing:
        return sorted(changing, key=lambda name: values[name] != 2)
    return [*several, *(name for name in candidates if values[name] == 1)][:1]


def dialogue_column(rows: Sequence[Mapping[str, str]], names: Sequence[str]) -> str | None:
    """Return the column of dialogue ids: one whose values occur in several rows."""
    for name in named(names, DIALOGUE, numbers=True):
        values = {row[name] for row in rows}
        if 0 < len(values) < len(rows) or len(rows) < 2:
            return name
    return None


def guessed_dialogue_column(rows: Sequence[Mapping[str, str]], names: Sequence[str]) -> str | None:
    """Return the column with the most distinct values of those whose equal values are in
    consecutive rows, on average at least two.
    """
    distinct = {}
    for name in names:
        values = [row[name] for row in rows]
        number = len(set(values))
        runs = 1 + sum(value != following for value, following in pairwise(values))
        if number >= FEWEST_DIALOGUES and runs == number and 2 * number <= len(rows):
            distinct[name] = number
    return max(distinct, key=lambda name: distinct[name], default=None)


def _changes(rows: Sequence[Mapping[str, str]], name: str, dialogue: str) -> float:
    """Return the fraction of the rows whose value differs from that of the row before in their
    dialogue.
    """
    last: dict[str, str] = {}
    differs = []
    for row in rows:
        id = row[dialogue]
        if id in last:
            differs.append(last[id] != row[name])
        last[id] = row[name]
    return fmean(differs) if differs else 0.0


def no_speaker(unused: Iterable[str]) -> str:
    """Return what is shown in place of a column of speakers: the names that have no role."""
    listed = truncate(", ".join(sorted(unused)), LISTED)
    rest = f"; unused: {listed}; data.corpus.speaker=NAME" if listed else ""
    return f"(none: two speakers take turns{rest})"


def _mean_length(rows: Sequence[Mapping[str, str]], name: str) -> float:
    return fmean(len(row[name]) for row in rows)
