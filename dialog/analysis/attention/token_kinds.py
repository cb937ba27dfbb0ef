"""Turns and kinds of the tokens of an attention map: a page groups them, statistics sum over them.

Shapes: B rows, S tokens, V vocabulary, K kinds.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dialog.data.dialogue import Example
from dialog.data.store.layout import lines_of_source
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, SELF, Tokenizer

KINDS = ("word", "punctuation", "role", "start", "end")
SPECIAL_KINDS = {BOS: "start", EOS: "end", SELF: "role", OTHER: "role"}
MASSES = ("mass_start", "mass_end", "mass_roles", "mass_punctuation")
"""Mass on the first token, on `</s>`, on the role tokens, and on tokens of punctuation or symbols
alone.
"""


class ReadLine(NamedTuple):
    """Fact or turn of a context."""

    own: bool  # whether the responder says it
    text: str
    tokens: int


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

    ``response`` is its text, and ``turns`` has the facts and turns of the context.
    ``context_lines`` has, for each context token, its index in them, -1 for the end token.
    ``context_kinds`` and ``response_kinds`` have a member of `KINDS` for each token; a separator of
    turns is a role. ``dropped_tokens`` is the number of tokens of the context that are truncated.
    """
    own = example.response.speaker
    facts, turns = (
        [
            ReadLine(turn.speaker == own, turn.text, len(ids))
            for turn, ids in zip(
                part, tokenizer.encode_batch([turn.text for turn in part]), strict=True
            )
        ]
        for part in (example.facts, example.context)
    )
    described = line_groups(
        tokenizer, facts, turns, source, target, max_source=max_source, layout=layout
    )
    return {"response": example.response.text, **described}


def line_groups(
    tokenizer: Tokenizer,
    facts: Sequence[ReadLine],
    turns: Sequence[ReadLine],
    source: Sequence[int],
    target: Sequence[int],
    *,
    max_source: int,
    layout: str,
) -> dict[str, Any]:
    """Return the fields of `token_groups` but the response, from the lines of an example."""
    sizes = ([line.tokens for line in part] for part in (facts, turns))
    located = lines_of_source(*sizes, max_source=max_source, layout=layout)
    kinds = [
        "role" if separator else token_kind(tokenizer, token)
        for token, separator in zip(source, located.separators, strict=True)
    ]
    return {
        "turns": [
            *({"speaker": "fact", "text": line.text} for line in facts),
            *({"speaker": "self" if line.own else "other", "text": line.text} for line in turns),
        ],
        "context_lines": located.lines,
        "context_kinds": kinds,
        "response_kinds": [token_kind(tokenizer, token) for token in target],
        "dropped_tokens": located.dropped,
    }


def token_kind(tokenizer: Tokenizer, token: int) -> str:
    """Return the member of `KINDS` of a token; a token of punctuation and symbols alone is
    punctuation.
    """
    if token in SPECIAL_KINDS:
        return SPECIAL_KINDS[token]
    text = tokenizer.label(token).replace("▁", "")
    is_mark = (
        text
        and not text.startswith("\\x")
        and all(unicodedata.category(char)[0] in "PS" for char in text)
    )
    return "punctuation" if is_mark else "word"


@dataclass(frozen=True)
class TokenKinds:
    """Tokens of a vocabulary that are punctuation or symbols alone."""

    punctuation: Tensor  # [V], True or False

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> TokenKinds:
        """Classify the tokens of a vocabulary, as on the pages of single examples."""
        return cls(
            torch.tensor(
                [token_kind(tokenizer, token) == "punctuation" for token in range(len(tokenizer))]
            )
        )

    def indicators(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return 1 or 0 for each token [B, S] and each of `MASSES`, 0 at padding: [B, S, K]."""
        first = torch.zeros_like(mask)
        first[:, 0] = True
        roles = (tokens == OTHER) | (tokens == SELF)
        punctuation = self.punctuation.to(tokens.device)[tokens]
        # [B, S, K]
        return torch.stack([first, tokens == EOS, roles, punctuation], -1) & mask.unsqueeze(-1)
