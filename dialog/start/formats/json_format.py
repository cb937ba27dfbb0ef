"""Detect JSON lines, JSON arrays of dialogues, and Telegram's result.json."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from dialog.data.corpora.jsonl import SPEAKERS
from dialog.data.corpora.parsing.chat_messages import FACT_ROLES, NON_TEXT_KEYS, TOOL_ROLES
from dialog.data.corpora.parsing.json_records import member
from dialog.data.corpora.parsing.json_table import cell, json_table
from dialog.data.corpora.parsing.tables import RowError
from dialog.data.reading.files import read_chunks
from dialog.data.reading.json_text import Json, parse_json
from dialog.errors import UserError
from dialog.escaping import one_line
from dialog.report.terminal import truncate
from dialog.start.formats.columns import (
    SPEAKER,
    TEXT,
    name_words,
    named,
    no_speaker,
    pair_of,
)
from dialog.start.formats.sample import FileSample
from dialog.start.formats.table_format import LONGEST_NAME, is_interleaved, table_columns
from dialog.start.formats.verdict import Detected, Miss

JSON = re.compile(r'[\[{]\s*(?:["\[{\]}]|$)')
"""Start of a JSON object or array, unlike that of `[1.2.24, 10:00] Anna: Hi`."""

RECORDS = 200
"""Records that are looked at."""

TURNS = (
    "turns", "messages", "dialogue", "dialog", "conversation", "conversations", "utterances",
    "log", "thread", "chat",
)  # fmt: skip
MOST = 0.9
"""Fraction of the records that must have a key."""

DEPTH = 4
"""Objects within each other in which keys are looked for."""

LISTED = 200
"""Characters of the keys that an error lists."""


def json_format(sample: FileSample, given: Mapping[str, Any]) -> Detected | Miss:
    """Check for JSON: an export of Telegram, or records of dialogues or messages.

    A miss is certain if the file begins like JSON.
    """
    if not JSON.match(sample.lines[0].lstrip()):
        return Miss("JSON", 0.0, "the first line does not begin with { or [")
    result = _json(sample, given)
    return result._replace(certain=True) if isinstance(result, Miss) else result


def _json(sample: FileSample, given: Mapping[str, Any]) -> Detected | Miss:
    lines, problem = _lines(sample)
    if len(lines) > 1 or (lines and not _is_whole(lines[0], sample)):
        return _records(lines, "JSON lines, a dialogue on each line", sample, given)
    try:
        raw = b"".join(read_chunks(sample.path))
        content = parse_json(raw.decode("utf-8-sig"), str(sample.path))
    except UserError as error:
        reason = problem or str(error).removeprefix(f"{sample.path}: ")
        return Miss("JSON", 0.9, reason)
    except UnicodeDecodeError:
        return Miss("JSON", 0.9, "it is not UTF-8; convert it: iconv -t UTF-8 FILE > NEW")
    if _is_telegram(content):
        return Detected({"name": "telegram", **given}, "an export of Telegram")
    if isinstance(content, list) and sample.path.suffix == ".json":
        return _records(content[:RECORDS], "a JSON array of dialogues", sample, given)
    if isinstance(content, list):
        return Miss("JSON", 0.8, "an array of records; name the file NAME.json")
    holder = _holder(content)
    reason = "one object, neither Telegram's nor with an array of dialogues"
    if holder:
        reason = (
            f"one object whose key {holder!r} holds the records; save that array as a file"
            " NAME.json"
        )
    return Miss("JSON", 0.8, reason)


def _lines(sample: FileSample) -> tuple[list[Json], str]:
    """Return the objects and arrays of the first lines; none if most lines are neither, and the
    error of the first other line if the first line is one.
    """
    values: list[Json] = []
    problem = ""
    lines = sample.lines[:RECORDS]
    for number, line in enumerate(lines, start=1):
        try:
            value = parse_json(line, f"line {number}")
        except UserError as error:
            problem = problem or (str(error) if values else "")
        else:
            if isinstance(value, dict | list):
                values.append(value)
            elif values:
                problem = problem or f"line {number} is neither an object nor an array"
    return (values if len(values) >= MOST * len(lines) else []), problem


def _is_whole(content: Json, sample: FileSample) -> bool:
    """Return whether the only line of a file is not a dialogue, but all of them."""
    if isinstance(content, list):
        return sample.path.suffix == ".json"
    return _is_telegram(content) or _holder(content) is not None


def _holder(content: Mapping[str, Json]) -> str | None:
    """Return the key of an array of dialogues, or of messages with ids of dialogues."""
    arrays = {key: value for key, value in content.items() if value and isinstance(value, list)}
    for key in _by_words(list(arrays), TURNS) or arrays:
        is_turns = bool(_by_words([key], TURNS))
        if all(_is_record(value, may_be_turn=is_turns) for value in arrays[key][:RECORDS]):
            return key
    return None


def _is_record(value: Json, *, may_be_turn: bool) -> bool:
    if not may_be_turn or not isinstance(value, dict):
        return isinstance(value, dict | list)
    lists = [path for path, inner in _leaves(value) if isinstance(inner, list)]
    return bool(_by_words(lists, TURNS) or pair_of(list(value)))


def _is_telegram(content: Json) -> bool:
    if not isinstance(content, dict):
        return False
    if isinstance(content.get("chats"), dict) and "list" in content["chats"]:
        return True
    messages = content.get("messages")
    return (
        isinstance(messages, list)
        and bool(messages)
        and all(isinstance(one, dict) and {"id", "type", "date"} <= one.keys() for one in messages)
    )


def _records(
    values: Sequence[Json], description: str, sample: FileSample, given: Mapping[str, Any]
) -> Detected | Miss:
    """Return the keys of dialogues."""
    encoding = {} if sample.encoding == "utf-8" else {"encoding": sample.encoding}
    arrays = [value for value in values if isinstance(value, list)]
    if arrays and len(arrays) >= MOST * len(values):
        return _turn_keys(arrays, None, description, encoding, given)
    objects = [value for value in values if isinstance(value, dict)]
    if not objects or len(objects) < MOST * len(values):
        return Miss("JSON", 0.8, "its records are not all objects, such as {...}, or all arrays")
    keys: Counter[str] = Counter()
    lists: Counter[str] = Counter()
    for one in objects:
        for path, value in _leaves(one):
            keys[path] += 1
            lists[path] += isinstance(value, list)
    many = [path for path, number in lists.items() if number > 0.5 * len(objects)]
    named_turns = _by_words(many, TURNS)
    turns = str(given["turns"]) if given.get("turns") else next(iter(named_turns), None)
    as_rows = {"dialogue", "context", "response"} & given.keys()
    if as_rows or turns is None:
        rows = _rows(objects, keys, sample, encoding, given)
        top = [path for path in many if path in objects[0]]
        if as_rows or isinstance(rows, Detected) or len(top) != 1:
            return rows
        turns = top[0]
    if not lists[turns]:
        return _no_key(turns, keys, "does not hold a list of turns")
    listed = [found for one in objects if isinstance(found := member(one, turns), list)]
    return _turn_keys(listed, turns, description, encoding, given)


def _leaves(fields: Mapping[str, Json], depth: int = DEPTH) -> Iterator[tuple[str, Json]]:
    """Yield the path, such as `payload.messages`, and the value of each key that holds no object;
    those of outer objects first.
    """
    for key, value in fields.items():
        if not isinstance(value, dict):
            yield key, value
    for key, value in fields.items():
        if isinstance(value, dict) and depth > 1:
            yield from ((f"{key}.{path}", inner) for path, inner in _leaves(value, depth - 1))


def _no_key(key: str, keys: Mapping[str, object], reason: str) -> Miss:
    """Return the miss of a key that the user has set."""
    problem = reason if key in keys else "does not exist"
    listed = truncate(one_line(", ".join(keys)), LISTED)
    return Miss("JSON", 0.9, f"the key {key!r} {problem}; the keys are {listed}")


def _rows(
    objects: Sequence[dict[str, Json]],
    keys: Mapping[str, int],
    sample: FileSample,
    encoding: Mapping[str, str],
    given: Mapping[str, Any],
) -> Detected | Miss:
    """Return the keys of objects that are messages, or pairs of them."""
    for role in ("dialogue", "speaker", "text", "context", "response"):
        if given.get(role) and str(given[role]) not in keys:
            return _no_key(str(given[role]), keys, "")
    names = [
        key
        for key, number in keys.items()
        if key in given.values()
        or (
            number >= MOST * len(objects)
            and len(key) <= LONGEST_NAME
            and all(cell(member(one, key)) is not None for one in objects)
        )
    ]
    listed = truncate(one_line(", ".join(keys)), LISTED)
    reason = (
        f"no key holds a list of turns among {listed}; write a dialogue on each line, or name the"
        " key: data.corpus.turns=KEY, or those of a message: data.corpus.dialogue=KEY (text and"
        " speaker likewise)"
    )
    rows = [{name: cell(member(one, name)) or "" for name in names} for one in objects]
    found = table_columns(rows, given) if names else Miss("JSON", 0.9, reason)
    if isinstance(found, Miss):
        return Miss("JSON", 0.9, reason)
    columns, shown = found
    if "context" in columns:
        component = {"name": "jsonl", **columns, **encoding, **given}
        return Detected(component, "JSON, a pair of turns in each record", shown)
    description = "JSON, a message in each record"
    component = {"name": "csv", **columns, **encoding}
    cells = json_table(sample.path, [columns["dialogue"]], sample.encoding)
    if is_interleaved(
        row[columns["dialogue"]] for _, row in cells if not isinstance(row, RowError)
    ):
        component["interleaved"] = True
        description += "; records of several dialogues alternate"
    return Detected({**component, **given}, description, shown)


def _turn_keys(
    listed: Sequence[list[Json]],
    turns: str | None,
    description: str,
    encoding: Mapping[str, str],
    given: Mapping[str, Any],
) -> Detected | Miss:
    """Return the keys of the turns of dialogues.

    Args:
        listed: The turns of each dialogue.
        turns: Path of the turns; None if a record is the list of turns.
        description: The format.
        encoding: The argument `encoding`, if needed.
        given: Arguments that the user has set.
    """
    path = {"turns": turns} if turns else {}
    messages = [turn for turns_of_one in listed for turn in turns_of_one]
    if messages and all(isinstance(turn, str) for turn in messages):
        component = {"name": "jsonl", **_renamed(**path), **encoding, **given}
        return Detected(component, description, path)
    dicts = [turn for turn in messages if isinstance(turn, dict)]
    if not dicts or len(dicts) < MOST * len(messages):
        where = f"{turns!r}" if turns else "its arrays"
        return Miss("JSON", 0.9, f"the elements of {where} are neither texts nor objects")
    if _are_openai(dicts) and not {"speaker", "text"} & given.keys():
        other = path if turns != "messages" else {}
        return Detected({"name": "messages", **other, **given}, "chats in OpenAI's format", other)
    every = dict.fromkeys(key for one in dicts for key in one)
    for role in ("speaker", "text"):
        if given.get(role) and str(given[role]) not in every:
            return _no_key(str(given[role]), every, "")
    keys = [key for key in dicts[0] if _share(dicts, key) >= MOST]
    strings = [key for key in keys if isinstance(dicts[0][key], str)]
    text = given.get("text") or next(iter(named(strings, TEXT, numbers=False)), None)
    speaker = given.get("speaker") or next(iter(named(strings, SPEAKER, numbers=True)), None)
    if text is None:
        rest = [key for key in strings if key != speaker]
        text = max(rest, key=lambda key: fmean(len(str(one.get(key))) for one in dicts), default="")
    if not text:
        return Miss(
            "JSON",
            0.9,
            f"a turn has no text among {one_line(', '.join(keys))}: data.corpus.text=KEY",
        )
    component = {
        "name": "jsonl",
        **_renamed(**path, speaker=speaker or "speaker", text=text),
        **encoding,
        **given,
    }
    shown = {
        **path,
        "speaker": speaker or no_speaker(set(keys) - {text}),
        "text": text,
    }
    return Detected(component, description, shown)


def _renamed(**keys: str) -> dict[str, str]:
    """Return the keys that differ from those of the corpus `jsonl`."""
    return {role: key for role, key in keys.items() if role != key}


def _share(objects: Sequence[dict[str, Json]], name: str) -> float:
    return fmean(name in one for one in objects)


def _by_words(names: Sequence[str], words: Sequence[str]) -> list[str]:
    """Return the names or paths whose last key has one of the words, the likeliest first."""
    places = {
        name: min((words.index(word) for word in _last_words(name) if word in words), default=-1)
        for name in names
    }
    return sorted((name for name in names if places[name] >= 0), key=lambda name: places[name])


def _last_words(path: str) -> list[str]:
    return name_words(path.rpartition(".")[2])


def _are_openai(messages: Sequence[dict[str, Json]]) -> bool:
    roles = {*SPEAKERS, *FACT_ROLES, *TOOL_ROLES}
    contents = {"content", *NON_TEXT_KEYS}
    return all(str(one.get("role")) in roles and contents & one.keys() for one in messages)
