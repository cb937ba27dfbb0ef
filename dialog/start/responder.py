"""Whose replies a model of the user's data learns."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from dialog.data.corpora.parsing.chat_messages import FACT_ROLES, TOOL_ROLES
from dialog.errors import UserError
from dialog.report.terminal import truncate
from dialog.start.formats.columns import name_words

ASSISTANTS = {
    "assistant", "agent", "bot", "chatbot", "support", "model", "system", "gpt", "ai", "service",
}  # fmt: skip
"""Words of the names of the side that replies."""

LISTED = 10
LONGEST_NAME = 30
"""Names of speakers that a message lists, and columns of each."""


def clear_responder(speakers: Iterable[str]) -> str | None:
    """Return the assistant, if a corpus has two speakers of which one is named so.

    More speakers are two if the others have roles of system prompts and tools.
    """
    names = list(speakers)
    if len(names) > 2:
        names = [name for name in names if name.casefold() not in (*FACT_ROLES, *TOOL_ROLES)]
    found = [name for name in names if (words := name_words(name)) and ASSISTANTS.issuperset(words)]
    return found[0] if len(names) == 2 and len(found) == 1 else None


def check_responder(responder: str | None, speakers: Mapping[str, int], path: str) -> None:
    """Check that a responder speaks in a corpus.

    Raises:
        UserError: with the names of the speakers, the nearest first.
    """
    if responder is None or responder in speakers:
        return
    wanted = responder.casefold()
    ranked = sorted(
        most_frequent(speakers),
        key=lambda name: -difflib.SequenceMatcher(None, wanted, name.casefold()).ratio(),
    )
    raise UserError(
        f"{path}: data.responder={responder}: no speaker has this name; the"
        f" {len(speakers):,} speakers: {listed(ranked, ', ')}"
    )


def most_frequent(speakers: Mapping[str, int]) -> list[str]:
    """Return the speakers, those of the most dialogues first."""
    return sorted(speakers, key=lambda name: (-speakers[name], name))


def listed(names: Iterable[str], separator: str) -> str:
    """Return the first names."""
    all_names = list(names)
    shown = [truncate(name, LONGEST_NAME) for name in all_names[:LISTED]]
    return separator.join([*shown, *(["..."] if len(all_names) > LISTED else [])])
