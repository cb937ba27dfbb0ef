"""Text in, text out: a network with its tokenizer and a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dialog.config.components import Component, build
from dialog.data.batching import collate
from dialog.data.dialogue import Example, Turn
from dialog.data.store.layout import encode_example
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF, UNK, Tokenizer
from dialog.generation.contract import Search
from dialog.generation.greedy import SEARCHES
from dialog.models.seq2seq import Seq2Seq

NEVER_SAID = (PAD, BOS, UNK, OTHER, SELF)


class Candidate(NamedTuple):
    """One response that a search found."""

    text: str
    score: float  # log-probability in nats, end token included
    tokens: int  # end token included where it was said


@dataclass(frozen=True)
class Responder:
    """Answers contexts, several at a time."""

    model: Seq2Seq
    tokenizer: Tokenizer
    max_source: int
    min_length: int
    max_length: int
    context_turns: int | None = None

    def respond(self, contexts: Sequence[Sequence[str]], search: Component) -> list[Candidate]:
        """A response to each context, in which the speakers alternate and the last turn is the other's.

        Of a context its last `context_turns` are read, as in training.
        """
        return self.answer([as_example(context, turns=self.context_turns) for context in contexts], search)

    def answer(self, examples: Sequence[Example], search: Component) -> list[Candidate]:
        """A response to the context of each example."""
        if not examples:
            return []
        pairs = [
            encode_example(self.tokenizer, example, max_source=self.max_source, max_target=None) for example in examples
        ]
        batch = collate(pairs, range(len(pairs)))
        return self.search(batch.source, search)

    @torch.inference_mode()
    def search(self, source: Tensor, search: Component) -> list[Candidate]:
        """A response to each source [B, S]."""
        device = next(self.model.parameters()).device
        find = build_search(search, min_length=self.min_length, max_length=self.max_length)
        source = source.to(device)
        memory, state = self.model.start(source, source != PAD)
        replies = find(self.model.step, source.new_full((len(source), 1), BOS), memory, state)
        return [
            Candidate(self.tokenizer.decode(tokens), score, len(tokens) + finished)
            for tokens, score, finished in zip(*replies, strict=True)
        ]


def build_search(component: Component, *, min_length: int, max_length: int) -> Search:
    """A search that says no special token, within the limits unless it has its own."""
    limited = {"min_length": min_length, "max_length": max_length, **component}
    return build(SEARCHES, limited, end=EOS, banned=NEVER_SAID)


def as_example(context: Sequence[str], response: str = "", name: str = "", *, turns: int | None = None) -> Example:
    """A context of bare texts, whose speakers alternate, and a response; of the context the last so many turns.

    Raises:
        TypeError: the context is a text, not a list of turns.
    """
    if isinstance(context, str):
        raise TypeError("a context is a list of turns: give [text]")
    context = context[max(0, len(context) - turns) :] if turns is not None else context
    speakers = ["self" if (len(context) - place) % 2 == 0 else "other" for place in range(len(context))]
    said = tuple(Turn(speaker, text) for speaker, text in zip(speakers, context, strict=True))
    return Example(name, name, said, Turn("self", response), 0)


def tokens_of(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Readable tokens for the axes of a map."""
    return [tokenizer.label(token) for token in ids]


def as_row(name: Any, context: Sequence[str], candidate: Candidate) -> dict[str, Any]:  # noqa: ANN401 - the user's id
    """A line of ``dialog respond``."""
    return {"id": name, "context": list(context), "response": candidate.text, "candidates": [candidate._asdict()]}
