"""Choose the turns of a conversation whose utterances reply to each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from dialog.errors import UserError


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


def longest_chain(conversation: Sequence[Utterance], place: str) -> tuple[list[Utterance], int]:
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
