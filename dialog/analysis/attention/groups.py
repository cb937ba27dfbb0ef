"""Turns and kinds of the tokens of an attention map: what a page groups, and what it can hide."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Any

from dialog.data.dialogue import Example
from dialog.data.store.source_lines import lines_of_source
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, SELF, Tokenizer

KINDS = ("word", "punctuation", "role", "start", "end")
SPECIAL_KINDS = {BOS: "start", EOS: "end", SELF: "role", OTHER: "role"}


def token_groups(
    tokenizer: Tokenizer,
    example: Example,
    source: Sequence[int],
    target: Sequence[int],
    *,
    max_source: int,
    layout: str,
) -> dict[str, Any]:
    """Return the fields that describe the tokens of the maps of one example.

    ``response`` is its text, and ``turns`` has the facts and turns of the context. ``context_lines`` has, for each
    context token, its index in them, -1 for the end token. ``context_kinds`` and ``response_kinds`` have a member of
    `KINDS` for each token; a separator of turns is a role. ``dropped_tokens`` is the number of tokens of the context
    that are truncated.
    """
    facts, turns = (
        [len(ids) for ids in tokenizer.encode_batch([turn.text for turn in part])]
        for part in (example.facts, example.context)
    )
    located = lines_of_source(facts, turns, max_source=max_source, layout=layout)
    kinds = [
        "role" if separator else token_kind(tokenizer, token)
        for token, separator in zip(source, located.separators, strict=True)
    ]
    own = example.response.speaker
    return {
        "response": example.response.text,
        "turns": [
            *({"speaker": "fact", "text": fact.text} for fact in example.facts),
            *({"speaker": "self" if turn.speaker == own else "other", "text": turn.text} for turn in example.context),
        ],
        "context_lines": located.lines,
        "context_kinds": kinds,
        "response_kinds": [token_kind(tokenizer, token) for token in target],
        "dropped_tokens": located.dropped,
    }


def token_kind(tokenizer: Tokenizer, token: int) -> str:
    """Return the member of `KINDS` of a token; a token of punctuation and symbols alone is punctuation."""
    if token in SPECIAL_KINDS:
        return SPECIAL_KINDS[token]
    text = tokenizer.label(token).replace("▁", "")
    is_mark = text and not text.startswith("\\x") and all(unicodedata.category(char)[0] in "PS" for char in text)
    return "punctuation" if is_mark else "word"
