"""ConvoKit's corpus format (Chang et al. 2020, https://aclanthology.org/2020.sigdial-1.8)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from dialog.data.corpora.parsing.corpus_files import FileCorpus
from dialog.data.corpora.parsing.lines import line_records
from dialog.data.corpora.parsing.records import records
from dialog.data.corpora.parsing.splits import split_by_hash
from dialog.data.dialogue import WARNING, Dialogue, Entry, Malformed, Turn
from dialog.data.reading.files import find_file
from dialog.data.reading.json_text import Json, json_members, parse_json
from dialog.errors import UserError

UTTERANCES = "utterances.jsonl"
CONVERSATIONS = "conversations.json"
FIELDS = {
    "id": "id",
    "text": "text",
    "speaker": "user",
    "conversation_id": "root",
    "reply-to": "reply_to",
}
"""The fields of an utterance, and their names in older releases."""


class Utterance(NamedTuple):
    """An utterance, its file:line and the id of the utterance that it replies to."""

    place: str
    id: str
    text: str
    speaker: str
    conversation: str
    reply_to: str | None
    error: str = ""
    """Message about a malformed field, which makes the conversation malformed; the other fields are
    then empty.
    """


class ConvoKit(FileCorpus):
    """Read a ConvoKit folder: `utterances.jsonl` and `conversations.json`, no other file.

    The utterances of a conversation are a dialogue with the conversation's id; its meta comes from
    `conversations.json`. Utterances that form a tree of replies give the longest chain of replies
    as turns: all chains together would repeat the turns that they share. Of several longest chains,
    the one whose end comes first in the file is read. A warning in the meta counts the utterances
    left out and the dangling replies, which point to themselves or outside the conversation; a
    dangling reply starts a chain. If no utterance replies to another, the turns are in file order.
    Replies in a circle and conversations with a malformed utterance are malformed.

    The format has no splits: `parsing.splits.split_by_hash` divides the dialogues.

    Args:
        path: The folder.
        group: Key of a conversation's meta; conversations with one value are in one split
            (`movie_idx` for films).
    """

    def __init__(self, path: Path | None, *, group: str | None = None) -> None:
        super().__init__(path, "convokit", f"a ConvoKit folder ({UTTERANCES}, {CONVERSATIONS})")
        self.group = group

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the conversations of a split, each after its last utterance; unfinished ones are
        kept in memory.
        """
        return split_by_hash(self._entries(*self.files()), split)

    def files(self) -> Iterable[Path]:
        """Return the two files."""
        hint = "a ConvoKit folder should hold it"
        return [find_file(self.path, name, hint) for name in (UTTERANCES, CONVERSATIONS)]

    def _entries(self, utterances: Path, conversations: Path) -> Iterator[Entry]:
        meta = {id: json.dumps(_checked(fields)) for id, fields in json_members(conversations)}
        entries = line_records(utterances, _utterance)
        sizes = Counter(entry.conversation for entry in entries if isinstance(entry, Utterance))
        unfinished: defaultdict[str, list[Utterance]] = defaultdict(list)
        for entry in line_records(utterances, _utterance):
            if isinstance(entry, Malformed):
                yield entry
                continue
            unfinished[entry.conversation].append(entry)
            if len(unfinished[entry.conversation]) == sizes[entry.conversation]:
                conversation = unfinished.pop(entry.conversation)
                yield from records(
                    [(conversation[0].place, conversation)], partial(self._dialogue, meta)
                )

    def _dialogue(
        self, metas: Mapping[str, str], conversation: list[Utterance], place: str
    ) -> Dialogue:
        for utterance in conversation:
            if utterance.error:
                raise UserError(utterance.error)
        id = conversation[0].conversation
        fields = json.loads(metas.get(id, "{}"))
        meta = dict(fields.get("meta", fields))
        if self.group is not None:
            meta["author"] = meta[self.group]
        chain, dangling = _longest_chain(conversation, place)
        if dangling or len(chain) < len(conversation):
            meta[WARNING] = (
                f"{place}: {len(conversation) - len(chain)} of {len(conversation)} utterances are"
                f" not in the longest chain of replies and are left out; {dangling} reply to"
                " themselves or outside the conversation"
            )
        return Dialogue(
            id, tuple(Turn(entry.speaker, entry.text) for entry in chain), meta, place=place
        )


def _utterance(line: str, place: str) -> Utterance:
    fields = parse_json(line, place)
    values: dict[str, Json] = {
        name: fields.get(name, fields.get(older)) for name, older in FIELDS.items()
    }
    conversation = values["conversation_id"]
    for name, value in values.items():
        if not isinstance(value, str) and (name, value) != ("reply-to", None):
            error = f"{place}: its {name} is {value!r}, not text; write it in quotes"
            if not isinstance(conversation, str):
                raise UserError(error)
            return Utterance(place, "", "", "", conversation, None, error)
    return Utterance(place, *values.values())


def _checked(fields: Json | UserError) -> Json:
    if isinstance(fields, UserError):
        raise fields
    return fields


def _longest_chain(conversation: Sequence[Utterance], place: str) -> tuple[list[Utterance], int]:
    """Return the longest chain of replies and the number of dangling replies.

    A dangling reply points to itself or outside the conversation; it starts a chain. If no
    utterance replies to another, all are returned in file order. Of several longest chains, the one
    whose end comes first in the file wins.

    Raises:
        UserError: two utterances have the same id, or replies form a circle.
    """
    by_id = {utterance.id: utterance for utterance in conversation}
    if len(by_id) < len(conversation):
        raise UserError(
            f"{place}: two utterances of this conversation have the same id; remove one"
        )
    parents = {
        utterance.id: by_id[utterance.reply_to]
        for utterance in conversation
        if utterance.reply_to in by_id and utterance.reply_to != utterance.id
    }
    dangling = sum(
        utterance.reply_to is not None and utterance.id not in parents for utterance in conversation
    )
    if not parents:
        return list(conversation), dangling
    ends = _deepest(conversation, {id: parent.id for id, parent in parents.items()}, place)
    chain = [next(utterance for utterance in conversation if utterance.id in ends)]
    while chain[-1].id in parents:
        chain.append(parents[chain[-1].id])
    return chain[::-1], dangling


def _deepest(conversation: Sequence[Utterance], parents: dict[str, str], place: str) -> set[str]:
    """Return the ids at the greatest depth of the reply trees."""
    replies: defaultdict[str, list[str]] = defaultdict(list)
    for id, parent in parents.items():
        replies[parent].append(id)
    levels = [[utterance.id for utterance in conversation if utterance.id not in parents]]
    while levels[-1]:
        levels.append([reply for id in levels[-1] for reply in replies[id]])
    if sum(map(len, levels)) < len(conversation):
        raise UserError(
            f"{place}: the replies of this conversation form a circle; correct or remove it"
        )
    return set(levels[-2])
