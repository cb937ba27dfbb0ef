"""Corpora in ConvoKit's format (Chang et al. 2020, https://aclanthology.org/2020.sigdial-1.8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from dialog.data.corpora.records import (
    Json,
    decoded,
    digests,
    json_document,
    numbered,
    parse_json,
    records,
    require_path,
    share,
)
from dialog.data.dialogue import WARNING, Dialogue, Entry, Malformed, Turn
from dialog.data.files import find_file
from dialog.errors import UserError

UTTERANCES = "utterances.jsonl"
CONVERSATIONS = "conversations.json"
FIELDS = {
    "id": ("id",),
    "conversation": ("conversation_id", "root"),
    "reply_to": ("reply-to", "reply_to"),
    "speaker": ("speaker", "user"),
    "text": ("text",),
}
"""What ConvoKit calls, or has called, what we do."""


class Utterance(NamedTuple):
    """A line of the file, and where it stands."""

    place: str
    id: str
    conversation: str
    reply_to: str | None
    speaker: str
    text: str


class ConvoKit:
    """Reads a folder with `utterances.jsonl` and `conversations.json`; no other file of it is opened.

    The utterances of one conversation are a dialogue, with its id and, as meta, what `conversations.json` says of it.
    Where none replies to another they are turns as the file has them. Where they are a tree of replies, the turns are
    the longest chain of replies, and of several the one whose end comes first in the file: all chains would repeat what
    they share. What is left out is counted in the meta's warning. An utterance that replies to itself, or to one that
    the conversation does not have, opens a chain and is counted there too; replies in a circle are malformed.

    There is no split that all such corpora have; `dialog.data.corpora.records.share` splits.

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
        utterances, conversations = self._files()
        meta = json_document(conversations)
        return share(self._entries(utterances, meta), split)

    def fingerprint(self) -> dict[str, str]:
        """Map the files to their SHA-256."""
        return digests(self.path, self._files())

    def _files(self) -> list[Path]:
        return [find_file(self.path, name, "a ConvoKit folder should hold it") for name in (UTTERANCES, CONVERSATIONS)]

    def _entries(self, path: Path, meta: Json) -> Iterator[Entry]:
        left = Counter(each.conversation for each in _utterances(path) if isinstance(each, Utterance))
        begun: dict[str, list[Utterance]] = {}
        for each in _utterances(path):
            if isinstance(each, Malformed):
                yield each
                continue
            conversation = begun.setdefault(each.conversation, [])
            conversation.append(each)
            if len(conversation) == left[each.conversation]:
                del begun[each.conversation]
                yield from records([(conversation[0].place, conversation)], lambda item, _: self._dialogue(item, meta))

    def _dialogue(self, conversation: list[Utterance], meta: Json) -> Dialogue:
        place, id = conversation[0].place, conversation[0].conversation
        known = meta.get(id, {})
        known = dict(known["meta"] if set(known) == {"meta", "vectors"} else known)
        if self.group is not None:
            known["author"] = known[self.group]
        chain, above = _longest_chain(conversation)
        astray = sum(each.reply_to is not None and each.id not in above for each in conversation)
        if astray or len(chain) < len(conversation):
            known[WARNING] = (
                f"{place}: {len(conversation) - len(chain)} of {len(conversation)} utterances are not in the longest "
                f"chain of replies, and left out; {astray} reply to themselves, or to what is not in the conversation"
            )
        return Dialogue(id, tuple(Turn(each.speaker, each.text) for each in chain), known, place=place)


def _utterances(path: Path) -> Iterator[Utterance | Malformed]:
    for place, raw in numbered(path):
        try:
            yield _utterance(parse_json(decoded(raw, place), place), place)
        except UserError as error:
            yield Malformed(str(error))


def _utterance(fields: Json, place: str) -> Utterance:
    if not isinstance(fields, dict):
        raise UserError(f"{place}: no utterance; write {{...}}")
    found: dict[str, Json] = {
        ours: next((fields[name] for name in names if name in fields), None) for ours, names in FIELDS.items()
    }
    for name, value in found.items():
        if not isinstance(value, str) and (name, value) != ("reply_to", None):
            raise UserError(f"{place}: its {name} is {value!r}, no text; write it in quotes")
    return Utterance(place, **found)


def _longest_chain(conversation: list[Utterance]) -> tuple[list[Utterance], Mapping[str, str]]:
    """The turns of a conversation, and what each utterance replies to where that is another of them."""
    by_id = {each.id: each for each in conversation}
    if len(by_id) < len(conversation):
        raise UserError(f"{conversation[0].place}: two utterances of this conversation have the same id")
    above = {
        each.id: each.reply_to
        for each in conversation
        if each.reply_to is not None and each.reply_to in by_id and each.reply_to != each.id
    }
    if not above:
        return conversation, above
    lengths = _lengths(conversation, above)
    at: str | None = max(by_id, key=lengths.__getitem__)
    chain = []
    while at is not None:
        chain.append(by_id[at])
        at = above.get(at)
    return chain[::-1], above


def _lengths(conversation: list[Utterance], above: Mapping[str, str]) -> dict[str, int]:
    """How many utterances the chain of replies from its opening to each has."""
    lengths: dict[str, int] = {}
    for each in conversation:
        walk: dict[str, None] = {}
        at: str | None = each.id
        while at is not None and at not in lengths:
            if at in walk:
                raise UserError(f"{each.place}: the replies to {at!r} go round in a circle")
            walk[at] = None
            at = above.get(at)
        for id in reversed(walk):
            lengths[id] = lengths[above[id]] + 1 if id in above else 1
    return lengths
