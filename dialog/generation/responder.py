"""Generate text from text: a network with its tokenizer and a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dialog.config.components import Component, build
from dialog.data.batching import collate
from dialog.data.dialogue import Example, Turn
from dialog.data.store.layout import ROLES, encode_example
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF, UNK, Tokenizer
from dialog.generation.contract import Search
from dialog.generation.greedy import SEARCHES
from dialog.models.seq2seq import Seq2Seq

BANNED_TOKENS = (PAD, BOS, UNK, OTHER, SELF)


class Candidate(NamedTuple):
    """Generated response."""

    text: str
    score: float  # log-probability in nats, end token included
    tokens: int  # number of tokens; counts the end token if it was generated


@dataclass(frozen=True)
class Responder:
    """Generates responses to batches of contexts."""

    model: Seq2Seq
    tokenizer: Tokenizer
    max_source: int
    min_length: int
    max_length: int
    context_turns: int | None = None
    normalise: bool = True
    layout: str = ROLES
    silence: str | None = None

    def respond(self, contexts: Sequence[Sequence[str]], search: Component) -> list[Candidate]:
        """Generate one response to each context, a list of turns of two alternating speakers.

        As in training, the model reads the last `context_turns` turns only, without outer white space if `normalise`.
        """
        if not contexts:
            return []
        pairs = [self.encode(self.example(context)) for context in contexts]
        return self.generate(collate(pairs, range(len(pairs))).source, search)

    def example(self, context: Sequence[str], response: str = "") -> Example:
        """Build an example as in training, from the turns of two alternating speakers and the next speaker's response.

        The response is not changed. With `silence`, the first turn is taken for the first of the dialogue.

        Raises:
            TypeError: the context is a string.
        """
        if isinstance(context, str):
            raise TypeError("context: expected a list of turns, not a string; pass [text]")
        facts = (Turn("self", self.silence),) if self.silence is not None and len(context) % 2 == 0 else ()
        if self.context_turns is not None:
            context = context[max(0, len(context) - self.context_turns) :]
        texts = [text.strip() if self.normalise else text for text in context]
        speakers = ("self" if place % 2 == 0 else "other" for place in range(len(texts), 0, -1))
        history = tuple(map(Turn, speakers, texts))
        return Example("", "", history, Turn("self", response), 0, facts)

    def encode(self, example: Example) -> tuple[list[int], list[int]]:
        """Return source and target ids, laid out as in training; the target is not truncated."""
        return encode_example(self.tokenizer, example, max_source=self.max_source, max_target=None, layout=self.layout)

    @torch.inference_mode()
    def generate(self, source: Tensor, search: Component) -> list[Candidate]:
        """Generate one response to each source [B, S]."""
        decode = build_search(search, min_length=self.min_length, max_length=self.max_length)
        source = source.to(next(self.model.parameters()).device)
        memory, state = self.model.start(source, source != PAD)
        replies = decode(self.model.step, source.new_full((len(source), 1), BOS), memory, state)
        return [
            Candidate(self.tokenizer.decode(tokens), score, len(tokens) + finished)
            for tokens, score, finished in zip(*replies, strict=True)
        ]


def build_search(component: Component, *, min_length: int, max_length: int) -> Search:
    """Build a search that bans special tokens; limits in the component override the arguments."""
    return build(
        SEARCHES, {"min_length": min_length, "max_length": max_length, **component}, end=EOS, banned=BANNED_TOKENS
    )


def response_row(name: Any, context: Sequence[str], candidate: Candidate) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Return one output line of ``dialog respond``."""
    return {"id": name, "context": list(context), "response": candidate.text, "candidates": [candidate._asdict()]}
