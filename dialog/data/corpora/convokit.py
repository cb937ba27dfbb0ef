"""Corpora in ConvoKit's format (Chang et al. 2020, https://aclanthology.org/2020.sigdial-1.8)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from dialog.data.corpora.parsing.records import digests, line_records, records, require_path, share
from dialog.data.dialogue import WARNING, Dialogue, Entry, Malformed, Turn
from dialog.data.reading.files import find_file
from dialog.data.reading.json_text import Json, json_members, parse_json
from dialog.errors import UserError

UTTERANCES = "utterances.jsonl"
CONVERSATIONS = "conversations.json"
FIELDS = {"id": "id", "text": "text", "speaker": "user", "conversation_id": "root", "reply-to": "reply_to"}
"""What a line calls the fields of an utterance, and what older releases call them."""


class Utterance(NamedTuple):
    """A line of the file, and where it stands."""

    place: str
    id: str
    text: str
    speaker: str
    conversation: str
    reply_to: str | None
    wrong: str = ""
    """What is malformed in it, and so in its conversation; the other fields are then empty."""


class ConvoKit:
    """Reads a folder with `utterances.jsonl` and `conversations.json`; no other file of it is opened.

    The utterances of one conversation are a dialogue, with its id and, as meta, what `conversations.json` says of it.
    Where none replies to another they are turns as the file has them. Where they are a tree of replies, the turns are
    the longest chain of replies, and of several the one whose end comes first in the file: all chains would repeat what
    they share. What is left out is counted in the meta's warning. An utterance that replies to itself, or to one that
    the conversation does not have, opens a chain and is counted there too. Replies in a circle are malformed, and so
    are all of a conversation with a malformed utterance that names it.

    There is no split that all such corpora have; `parsing.records.share` splits.

    Args:
        path: The folder.
        group: The key of a conversation's meta whose value keeps conversations in one split, as `movie_idx` does for
            films.
    """

    def __init__(self, path: Path | None, *, group: str | None = None) -> None:
        self.path = require_path(path, "convokit", f"a ConvoKit folder ({UTTERANCES}, {CONVERSATIONS})")
        self.group = group

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the conversations of a split, each once its last utterance was read; those begun are kept till then."""
        return share(self._entries(*self._files()), split)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        return digests(self.path, self._files())

    def _files(self) -> list[Path]:
        return [find_file(self.path, name, "a ConvoKit folder should hold it") for name in (UTTERANCES, CONVERSATIONS)]

    def _entries(self, utterances: Path, conversations: Path) -> Iterator[Entry]:
        meta = {id: json.dumps(_known(about)) for id, about in json_members(conversations)}
        found = line_records(utterances, _utterance)
        left = Counter(each.conversation for each in found if isinstance(each, Utterance))
        begun: defaultdict[str, list[Utterance]] = defaultdict(list)
        for each in line_records(utterances, _utterance):
            if isinstance(each, Malformed):
                yield each
                continue
            begun[each.conversation].append(each)
            if len(begun[each.conversation]) == left[each.conversation]:
                talk = begun.pop(each.conversation)
                yield from records([(talk[0].place, talk)], lambda talk, place: self._dialogue(talk, place, meta))

    def _dialogue(self, talk: list[Utterance], place: str, meta: Mapping[str, str]) -> Dialogue:
        for each in talk:
            if each.wrong:
                raise UserError(each.wrong)
        id = talk[0].conversation
        about = json.loads(meta.get(id, "{}"))
        known = dict(about.get("meta", about))
        if self.group is not None:
            known["author"] = known[self.group]
        chain, astray = _longest_chain(talk, place)
        if astray or len(chain) < len(talk):
            known[WARNING] = (
                f"{place}: {len(talk) - len(chain)} of {len(talk)} utterances are not in the longest chain of replies, "
                f"and left out; {astray} reply to themselves, or to what is not in the conversation"
            )
        return Dialogue(id, tuple(Turn(each.speaker, each.text) for each in chain), known, place=place)


def _utterance(line: str, place: str) -> Utterance:
    fields = parse_json(line, place)
    found: list[Json] = [fields.get(name, fields.get(older)) for name, older in FIELDS.items()]
    conversation = dict(zip(FIELDS, found, strict=True))["conversation_id"]
    for name, value in zip(FIELDS, found, strict=True):
        if not isinstance(value, str) and (name, value) != ("reply-to", None):
            wrong = f"{place}: its {name} is {value!r}, no text; write it in quotes"
            if not isinstance(conversation, str):
                raise UserError(wrong)
            return Utterance(place, "", "", "", conversation, None, wrong)
    return Utterance(place, *found)


def _longest_chain(talk: list[Utterance], place: str) -> tuple[list[Utterance], int]:
    """The turns of a conversation, and how many reply to themselves or to what it does not have."""
    by_id = {each.id: each for each in talk}
    if len(by_id) < len(talk):
        raise UserError(f"{place}: two utterances of this conversation have the same id; remove one")
    above = {each.id: by_id[each.reply_to] for each in talk if each.reply_to in by_id and each.reply_to != each.id}
    astray = sum(each.reply_to is not None and each.id not in above for each in talk)
    if not above:
        return talk, astray
    replies: defaultdict[str, list[Utterance]] = defaultdict(list)
    for id, to in above.items():
        replies[to.id].append(by_id[id])
    levels = [[each for each in talk if each.id not in above]]
    while levels[-1]:
        levels.append([reply for each in levels[-1] for reply in replies[each.id]])
    if sum(map(len, levels)) < len(talk):
        raise UserError(f"{place}: replies of this conversation go round in a circle; mend or remove it")
    ends = {each.id for each in levels[-2]}
    chain = [next(each for each in talk if each.id in ends)]
    while chain[-1].id in above:
        chain.append(above[chain[-1].id])
    return chain[::-1], astray


def _known(about: Json | UserError) -> Json:
    if isinstance(about, UserError):
        raise about
    return about
