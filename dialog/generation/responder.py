"""Generate text from text: a network with its tokenizer and a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dialog.config.components import Component, build
from dialog.config.schema import GenerationConfig
from dialog.data.batching import collate
from dialog.data.dialogue import Example, Turn
from dialog.data.store.layout import ROLES, encode_example
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF, UNK, Tokenizer
from dialog.errors import UserError
from dialog.generation.constraints import Constraints, RequiredWords
from dialog.generation.contract import Hypothesis, Search
from dialog.generation.network_step import NetworkStep, Watch, WatchedStep
from dialog.generation.searches.family import SEARCHES
from dialog.generation.word_finder import WordFinder, occurs, pattern
from dialog.models.inference import PreparedNetworks
from dialog.models.seq2seq import Seq2Seq

BANNED_TOKENS = (PAD, BOS, UNK, OTHER, SELF)


class Candidate(NamedTuple):
    """Generated response."""

    text: str
    score: float  # log-probability in nats, end token included
    tokens: int  # number of tokens; counts the end token if it was generated
    token_scores: list[float]  # of each token, in nats
    ids: Sequence[int] = ()  # token ids, with the end token if it was generated


@dataclass(frozen=True)
class Responder:
    """Generates responses to batches of contexts; an ensemble averages the probabilities of several models."""

    model: Seq2Seq
    tokenizer: Tokenizer
    max_source: int
    generation: GenerationConfig
    context_turns: int | None = None
    normalise: bool = True
    layout: str = ROLES
    silence: str | None = None
    others: tuple[Seq2Seq, ...] = ()  # of an ensemble
    int8: bool = False  # products of the decoders and heads in int8, see `dialog.load`

    def respond(
        self, contexts: Sequence[Sequence[str]], search: Component | None = None, watch: Watch | None = None
    ) -> list[list[Candidate]]:
        """Generate responses to each context, a list of turns of two alternating speakers; the best one first.

        ``search`` replaces the recipe's; it may hold constraints too. The list is empty where the scores of the
        model are not numbers.

        As in training, the model reads the last `context_turns` turns only, without outer white space if `normalise`.
        ``watch`` receives the tokens so far of the response to a single context, if the search decodes one row.
        """
        if not contexts:
            return []
        pairs = [self.encode(self.example(context)) for context in contexts]
        return self.generate(collate(pairs, range(len(pairs))).source, search, watch)

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
    def generate(
        self, source: Tensor, search: Component | None = None, watch: Watch | None = None
    ) -> list[list[Candidate]]:
        """Generate responses to each source [B, S], the best one first."""
        device = next(self.model.parameters()).device
        decode, source = self._search(search, device), source.to(device)
        models = self._networks.current()
        watchable = decode.streams and len(source) == 1
        step = WatchedStep(models, watch) if watch is not None and watchable else NetworkStep(models)
        memory, state = step.start(source, source != PAD)
        replies = decode(step, source.new_full((len(source), 1), BOS), memory, state, source)
        return [[self._candidate(reply) for reply in hypotheses] for hypotheses in replies]

    def _candidate(self, reply: Hypothesis) -> Candidate:
        ids = (*reply.tokens, *([EOS] if reply.finished else []))
        return Candidate(
            self.tokenizer.decode(reply.tokens), reply.score, len(reply.token_scores), reply.token_scores, ids
        )

    def _search(self, search: Component | None, device: torch.device) -> Search:
        """Return the search of a component; built once."""
        component = self.generation.search if search is None else search
        key = f"{device} {component}"
        if key not in self._searches:
            self._searches[key] = build_search(component, self.generation, self.tokenizer, device)
        return self._searches[key]

    @cached_property
    def _networks(self) -> PreparedNetworks:
        return PreparedNetworks((self.model, *self.others), int8=self.int8)

    @cached_property
    def _searches(self) -> dict[str, Search]:
        return {}


def build_search(
    component: Component,
    generation: GenerationConfig,
    tokenizer: Tokenizer | None = None,
    device: torch.device | str = "cpu",
) -> Search:
    """Build a search that emits no special token; constraints in the component replace those of ``generation``.

    Without a tokenizer the words of constraints are only checked, not built in.

    Raises:
        UserError: unknown search or argument, or constraints that contradict each other.
    """
    limits = {item.name: getattr(generation, item.name) for item in fields(GenerationConfig) if item.name != "search"}
    own = {key: value for key, value in component.items() if key not in limits}
    limits |= {key: value for key, value in component.items() if key in limits}
    try:
        constraints = build_constraints(limits, tokenizer).to(torch.device(device))
    except ValueError as error:
        raise UserError(f"{own.get('name')}: {error}") from error
    return build(SEARCHES, own, constraints=constraints)


def build_constraints(limits: dict[str, Any], tokenizer: Tokenizer | None) -> Constraints:
    """Build constraints from the values of a recipe's ``generation`` section.

    Raises:
        ValueError: they contradict each other.
    """
    values = dict(limits)
    banned, required, prefix = (values.pop(key) for key in ("banned", "required", "prefix"))
    for word in (*banned, *required):
        pattern(word)
    for word in required:
        if contained := [ban for ban in banned if occurs(ban, word)]:
            raise ValueError(f"required word {word!r} contains the banned word {contained[0]!r}")
    if contained := [ban for ban in banned if occurs(ban, prefix)]:
        raise ValueError(f"prefix {prefix!r} contains the banned word {contained[0]!r}")
    if tokenizer is None:
        return Constraints(end=EOS, special=BANNED_TOKENS, **values)
    pieces = tokenizer.pieces() if banned or required else []
    return Constraints(
        end=EOS,
        special=BANNED_TOKENS,
        **values,
        prefix=tokenizer.encode(prefix),
        banned=WordFinder.build(banned, pieces) if banned else None,
        required=required_words(required, pieces, tokenizer) if required else None,
    )


def required_words(words: Sequence[str], pieces: Sequence[bytes], tokenizer: Tokenizer) -> RequiredWords:
    """Return required words with the tokens that they have after a space.

    Raises:
        ValueError: the vocabulary cannot represent a word.
    """
    encoded = [tokenizer.encode(f"a {word.strip()}")[len(tokenizer.encode("a")) :] for word in words]
    for word, ids in zip(words, encoded, strict=True):
        if not ids or UNK in ids:
            raise ValueError(f"required word {word!r} is not in the vocabulary")
    lengths = torch.tensor(list(map(len, encoded)))
    tokens = torch.zeros(len(words), int(lengths.max()), dtype=torch.long)
    for row, ids in enumerate(encoded):
        tokens[row, : len(ids)] = torch.tensor(ids)
    return RequiredWords(WordFinder.build(words, pieces), tokens, lengths)


def response_row(name: Any, context: Sequence[str], candidates: Sequence[Candidate]) -> dict[str, Any]:  # noqa: ANN401 - any JSON
    """Return one output line of ``dialog respond``; an error without a candidate."""
    if not candidates:
        return {"id": name, "error": "the scores of the model are not numbers"}
    rows = [{key: value for key, value in candidate._asdict().items() if key != "ids"} for candidate in candidates]
    return {"id": name, "context": list(context), "response": candidates[0].text, "candidates": rows}
