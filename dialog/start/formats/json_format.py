"""Detect JSON lines, JSON arrays of dialogues, and Telegram's result.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from dialog.data.corpora.jsonl import SPEAKERS
from dialog.data.corpora.parsing.chat_messages import FACT_ROLES
from dialog.data.reading.files import read_chunks
from dialog.data.reading.json_text import Json, parse_json
from dialog.errors import UserError
from dialog.start.formats.columns import (
    SPEAKER,
    TEXT,
    name_words,
    named,
    no_speaker,
    pair_of,
)
from dialog.start.formats.sample import FileSample
from dialog.start.formats.verdict import Detected, Miss

RECORDS = 200
"""Records that are looked at."""

TURNS = (
    "turns", "messages", "dialogue", "dialog", "conversation", "conversations", "utterances",
    "log", "thread", "chat",
)  # fmt: skip
MOST = 0.9
"""Fraction of the records that must have a key."""


def json_format(sample: FileSample, given: Mapping[str, Any]) -> Detected | Miss:
    """Check for JSON: an export of Telegram, or records of dialogues."""
    first = sample.lines[0].lstrip()
    if not first.startswith(("{", "[")):
        return Miss("JSON lines", 0.0, "the first line does not begin with { or [")
    lines, problem = _lines(sample)
    if lines and not (len(lines) == 1 and _is_telegram(lines[0])):
        return _records(lines, "JSON lines, a dialogue on each line", sample, given)
    try:
        raw = b"".join(read_chunks(sample.path))
        content = parse_json(raw.decode("utf-8-sig"), str(sample.path))
    except UserError as error:
        reason = problem or str(error)
        return Miss("JSON lines", 0.9, reason.removeprefix(f"{sample.path}: "))
    except UnicodeDecodeError:
        return Miss("JSON", 0.9, "it is not UTF-8; convert it: iconv -t UTF-8 FILE > NEW")
    if _is_telegram(content):
        return Detected({"name": "telegram", **given}, "an export of Telegram")
    if isinstance(content, list) and sample.path.suffix == ".json":
        return _records(content[:RECORDS], "a JSON array of dialogues", sample, given)
    reason = "an object that is neither Telegram's nor an array of dialogues"
    if isinstance(content, list):
        reason = "an array of dialogues; name the file NAME.json"
    return Miss("JSON", 0.8, reason)


def _lines(sample: FileSample) -> tuple[list[Json], str]:
    """Return the objects of the first lines; none, and the error, if most lines are no objects."""
    values: list[Json] = []
    problem = ""
    lines = sample.lines[:RECORDS]
    for number, line in enumerate(lines, start=1):
        try:
            value = parse_json(line, f"line {number}")
        except UserError as error:
            problem = problem or str(error)
        else:
            values.append(value)
    objects = [value for value in values if isinstance(value, dict)]
    return (objects if len(objects) >= MOST * len(lines) else []), problem


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
    objects = [value for value in values if isinstance(value, dict)]
    if not objects or len(objects) < MOST * len(values):
        return Miss("JSON lines", 0.8, "its records are not objects, such as {...}")
    encoding = {} if sample.encoding == "utf-8" else {"encoding": sample.encoding}
    names = [name for name in objects[0] if _share(objects, name) >= MOST]
    lists = [
        name for name in names if fmean(isinstance(one.get(name), list) for one in objects) > 0.5
    ]
    turns = next(iter(_by_words(lists, TURNS)), None)
    if turns is None and len(lists) == 1:
        turns = lists[0]
    if given.get("turns"):
        turns = str(given["turns"])
    if turns is None:
        texts = [name for name in names if isinstance(objects[0][name], str)]
        if pair := pair_of(texts):
            columns = dict(zip(("context", "response"), pair, strict=True))
            return Detected({"name": "jsonl", **columns, **encoding, **given}, description, columns)
        reason = (
            f"no key holds a list of turns among {', '.join(objects[0])}; write a dialogue on each"
            " line, or name the key: data.corpus.turns=KEY"
        )
        return Miss("JSON lines", 0.9, reason)
    listed = [one[turns] for one in objects if isinstance(one.get(turns), list)]
    messages = [turn for messages_of_one in listed for turn in messages_of_one]
    if messages and all(isinstance(turn, str) for turn in messages):
        component = {"name": "jsonl", **_renamed(turns=turns), **encoding, **given}
        return Detected(component, description, {"turns": turns})
    dicts = [turn for turn in messages if isinstance(turn, dict)]
    if not dicts or len(dicts) < MOST * len(messages):
        return Miss("JSON lines", 0.9, f"the elements of {turns!r} are neither texts nor objects")
    if turns == "messages" and _are_openai(dicts):
        return Detected({"name": "messages", **given}, "chats in OpenAI's format")
    keys = [key for key in dicts[0] if _share(dicts, key) >= MOST]
    strings = [key for key in keys if isinstance(dicts[0][key], str)]
    text = given.get("text") or next(iter(named(strings, TEXT, numbers=False)), None)
    speaker = given.get("speaker") or next(iter(named(strings, SPEAKER, numbers=True)), None)
    if text is None:
        rest = [key for key in strings if key != speaker]
        text = max(rest, key=lambda key: fmean(len(str(one.get(key))) for one in dicts), default="")
    if not text:
        return Miss(
            "JSON lines", 0.9, f"a turn has no text among {', '.join(keys)}: data.corpus.text=KEY"
        )
    component = {
        "name": "jsonl",
        **_renamed(turns=turns, speaker=speaker or "speaker", text=text),
        **encoding,
        **given,
    }
    shown = {
        "turns": turns,
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
    """Return the names that have one of the words, the likeliest first."""
    places = {
        name: min((words.index(word) for word in name_words(name) if word in words), default=-1)
        for name in names
    }
    return sorted((name for name in names if places[name] >= 0), key=lambda name: places[name])


def _are_openai(messages: Sequence[dict[str, Json]]) -> bool:
    roles = {*SPEAKERS, *FACT_ROLES, "tool", "function"}
    return all(one.get("role") in roles and "content" in one for one in messages)
