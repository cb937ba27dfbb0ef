"""``--judge 'openai:URL#MODEL'``: an OpenAI-compatible endpoint as the judge.

Its options are those of the system ``openai:URL#MODEL``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from typing import Any

from dialog.comparison.systems.lines import leave
from dialog.comparison.systems.openai import answer_rows
from dialog.errors import UserError

PROMPT = """Which response continues the conversation better: is it more fitting, more sensible \
and more natural?

Conversation:
{context}

Response A:
{a}

Response B:
{b}

Answer with one word: A, B or tie."""


def messages(row: Mapping[str, Any]) -> list[str]:
    """Return the question as the turns of a chat."""
    turns = "\n".join(f"- {turn}" for turn in row["context"]) or "(none)"
    return [PROMPT.format(context=turns, a=row["a"], b=row["b"])]


def choice_of(text: str) -> dict[str, str]:
    """Return the choice that a reply names last; a tie if it names none."""
    words = re.findall(r"\b(A|B|[Tt]ie|TIE)\b", text)
    return {"choice": words[-1].lower() if words else "tie"}


if __name__ == "__main__":
    try:
        answer_rows(sys.argv[1:], messages, choice_of)
    except UserError as failure:
        leave(failure)
