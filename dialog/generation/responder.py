"""Generate text from text: a network with its tokenizer and a search."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dialog.config.components import Component
from dialog.config.schema import GenerationConfig
from dialog.data.batching import collate
from dialog.data.dialogue import Example, Turn
from dialog.data.store.layout import ROLES, encode_examples, last_turn
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD, Tokenizer
from dialog.errors import UserError
from dialog.generation.banned_words import BannedWords
from dialog.generation.build import build_search
from dialog.generation.engine_step import EngineStep, WatchedEngine
from dialog.generation.network_step import NetworkStep, Watch, WatchedStep
from dialog.generation.row_loop import RowLoop
from dialog.generation.search import EncodingStep, Hypothesis, Search
from dialog.generation.searches.mmi import ReverseScores
from dialog.models.inference import PreparedNetworks
from dialog.models.seq2seq import Seq2Seq

Likelihoods = Callable[[Sequence[tuple[Sequence[str], str]]], list[float]]
"""From pairs of context and response to log p(response | context) in nats."""
MOST_SEARCHES = 64
"""Number of searches that stay in memory; requests to a service can select many."""
MOST_LISTS = 8
"""Number of lists of banned words whose tables stay in memory; searches with the same words share
them.
"""


class Candidate(NamedTuple):
    """Generated response."""

    text: str
    score: float  # log-probability in nats, end token included
    tokens: int  # number of tokens; counts the end token if it was generated
    token_scores: list[float]  # of each token, in nats
    rank: float  # what the search sorts by, higher is better
    ids: Sequence[int] = ()  # token ids, with the end token if it was generated


def no_reverse(folder: str) -> Likelihoods:
    """Raise UserError: only a run folder can load the model of another one."""
    raise UserError(
        f"mmi: the reverse model {folder} needs a run folder; use `python -m dialog respond` or"
        " dialog.load"
    )


@dataclass(frozen=True)
class Responder:
    """Generates responses to batches of contexts.

    ``max_source``, ``context_turns``, ``normalise``, ``layout`` and ``silence`` are the keys of the
    recipe's ``data`` section: a context is read as in training. ``generation`` has the default
    search and the constraints. ``load_reverse`` loads the reverse model of a run folder, for the
    search ``mmi``.
    """

    model: Seq2Seq
    tokenizer: Tokenizer
    max_source: int
    generation: GenerationConfig
    context_turns: int | None = None
    normalise: bool = True
    layout: str = ROLES
    silence: str | None = None
    load_reverse: Callable[[str], Likelihoods] = no_reverse
    int8: bool = False  # products in int8, see `dialog.load`
    engine: EngineStep | None = None  # computes the steps in place of the model

    def respond(
        self,
        contexts: Sequence[Sequence[str]],
        search: Component | None = None,
        watch: Watch | None = None,
        *,
        ids: Sequence[str] | None = None,
    ) -> list[list[Candidate]]:
        """Generate responses to each context, a list of turns of two alternating speakers; the best
        one first.

        As in training, the model reads the last `context_turns` turns only, without outer white
        space if `normalise`.

        Args:
            contexts: Of any number.
            search: Replaces the recipe's; it may hold constraints too.
            watch: Called before each step of the search. Receives the tokens so far of the response
                to a single context if the search decodes one row, else none.
            ids: One per context, for searches that draw (see `Sampling`). By default equal contexts
                are numbered and get different draws; the first gets those of a single context.

        Returns:
            Candidates of each context; none where the scores of the model are not numbers.

        Raises:
            UserError: another number of ids than contexts.
        """
        if not contexts:
            return []
        if ids is not None and len(ids) != len(contexts):
            raise UserError(
                f"{len(ids)} ids for {len(contexts)} contexts; give one id for each context, or"
                " none"
            )
        pairs = self.encode_batch([self.example(context) for context in contexts])
        ids = numbered([source for source, _ in pairs]) if ids is None else ids
        return self.generate(collate(pairs).source, search, watch, ids=ids)

    def example(self, context: Sequence[str], response: str = "") -> Example:
        """Build an example as in training, from the turns of two alternating speakers and the next
        speaker's response.

        The response is not changed. With `silence`, the first turn of the context is that of the
        dialogue.

        Raises:
            TypeError: the context is not a list of strings, or the response is not a string.
        """
        _check_texts(context, response)
        facts = (
            (Turn("self", self.silence),)
            if self.silence is not None and len(context) % 2 == 0
            else ()
        )
        if self.context_turns is not None:
            context = context[max(0, len(context) - self.context_turns) :]
        texts = [text.strip() if self.normalise else text for text in context]
        speakers = ("self" if place % 2 == 0 else "other" for place in range(len(texts), 0, -1))
        turns = tuple(map(Turn, speakers, texts))
        return Example("", "", turns, Turn("self", response), 0, facts)

    def encode(self, example: Example) -> tuple[list[int], list[int]]:
        """Return source and target ids, laid out as in training; the target is not truncated."""
        return self.encode_batch([example])[0]

    def encode_batch(self, examples: Sequence[Example]) -> list[tuple[list[int], list[int]]]:
        """Return `encode` of each example; faster, since the turns that they share are tokenized
        once.
        """
        return encode_examples(
            self.tokenizer,
            examples,
            max_source=self.max_source,
            max_target=None,
            layout=self.layout,
        )

    @torch.inference_mode()
    def generate(
        self,
        source: Tensor,
        search: Component | None = None,
        watch: Watch | None = None,
        *,
        ids: Sequence[str] = (),
    ) -> list[list[Candidate]]:
        """Generate responses to each source [B, S], the best one first; `ids` are those of the
        sources.
        """
        decode = self.search(search)
        source = source.to(next(self.model.parameters()).device)
        step = self._step(watch, shows_tokens=decode.streams and len(source) == 1)
        memory, state = step.start(source, source != PAD)
        replies = decode(step, source.new_full((len(source), 1), BOS), memory, state, source, ids)
        return [[self.candidate(reply) for reply in hypotheses] for hypotheses in replies]

    def row_loop(self) -> RowLoop:
        """Return a loop that decodes responses which begin and end at any token."""
        device = next(self.model.parameters()).device
        return RowLoop(self._step(None), device, joins=self.engine is None)

    def _step(self, watch: Watch | None, *, shows_tokens: bool = False) -> EncodingStep:
        if self.engine is not None:
            return self.engine if watch is None else WatchedEngine(self.engine, watch)
        models = self._networks.current()
        if watch is None:
            return NetworkStep(models)
        return WatchedStep(models, watch, shows_tokens=shows_tokens)

    def candidate(self, reply: Hypothesis) -> Candidate:
        """Return a decoded response with its text."""
        text = self.tokenizer.decode(reply.tokens)
        ids = (*reply.tokens, *([EOS] if reply.finished else []))
        return Candidate(text, reply.score, len(ids), reply.token_scores, reply.rank, ids)

    def search(self, component: Component | None = None) -> Search:
        """Return the recipe's search or that of a component; the last `MOST_SEARCHES` stay in
        memory.

        Raises:
            UserError: unknown search or argument, contradictory constraints, or a reverse model
                that cannot be used.
        """
        component = self.generation.search if component is None else component
        device = next(self.model.parameters()).device
        key = f"{device} {component}"
        if key not in self._searches:
            empty, _ = self.encode(Example("", "", (), Turn("self", ""), 0))
            self._searches[key] = build_search(
                component,
                self.generation,
                self.tokenizer,
                device,
                load_reverse=self._reverse,
                empty_source=empty,
                find_banned=partial(self._find_banned, device),
            )
            if len(self._searches) > MOST_SEARCHES:
                del self._searches[next(iter(self._searches))]
        return self._searches[key]

    def _find_banned(self, device: torch.device, words: Sequence[str]) -> BannedWords:
        """Return the tables of banned words; a list beyond `MOST_LISTS` removes the oldest one, and
        all searches.
        """
        key = device, frozenset(words)
        if key not in self._banned:
            if len(self._banned) == MOST_LISTS:
                del self._banned[next(iter(self._banned))]
                self._searches.clear()
            self._banned[key] = BannedWords.build(words, self.tokenizer.pieces()).to(device)
        return self._banned[key]

    def _reverse(self, folder: str) -> ReverseScores:
        """Return the scores of the reverse model in a folder; any tokenizer will do, since it reads
        text.
        """
        likelihoods = self.load_reverse(folder)

        def scores(sources: list[list[int]], responses: list[list[list[int]]]) -> list[list[float]]:
            messages = (self.tokenizer.decode(last_turn(source, self.layout)) for source in sources)
            pairs = [
                ([self.tokenizer.decode(tokens)], message)
                for message, candidates in zip(messages, responses, strict=True)
                for tokens in candidates
            ]
            values = iter(likelihoods(pairs))
            return [[next(values) for _ in candidates] for candidates in responses]

        return scores

    @cached_property
    def _networks(self) -> PreparedNetworks:
        return PreparedNetworks(self.model.members, int8=self.int8)

    @cached_property
    def _searches(self) -> dict[str, Search]:
        return {}

    @cached_property
    def _banned(self) -> dict[tuple[torch.device, frozenset[str]], BannedWords]:
        return {}


def check_answered(responses: Sequence[Sequence[Candidate]], where: str) -> None:
    """Check that each source has a response.

    Raises:
        UserError: a source has none, because the scores are not numbers; the message begins with
            ``where``.
    """
    if not all(responses):
        raise UserError(
            f"{where}: the scores of the model are not numbers; train with a smaller optimizer.lr"
        )


def numbered(sources: Sequence[Sequence[int]]) -> list[str]:
    """Return an id for each source: its number among equal ones, counted from 1, and "" for the
    first.
    """
    counts: Counter[tuple[int, ...]] = Counter()
    ids: list[str] = []
    for source in map(tuple, sources):
        counts[source] += 1
        ids.append(str(counts[source]) if counts[source] > 1 else "")
    return ids


def response_row(
    name: Any,
    context: Sequence[str],
    candidates: Sequence[Candidate],
) -> dict[str, Any]:
    """Return one output line of ``dialog respond``; an error without a candidate."""
    if not candidates:
        return {"id": name, "error": "the scores of the model are not numbers"}
    rows = [
        {key: value for key, value in candidate._asdict().items() if key != "ids"}
        for candidate in candidates
    ]
    return {
        "id": name,
        "context": list(context),
        "response": candidates[0].text,
        "candidates": rows,
    }


def _check_texts(context: Sequence[str], response: str) -> None:
    if isinstance(context, str):
        raise TypeError("context: expected a list of turns, not a string; pass [text]")
    if not isinstance(context, Sequence):
        raise TypeError(f"context: expected a list of turns, not {context!r}")
    for number, text in enumerate(context, start=1):
        if not isinstance(text, str):
            raise TypeError(f"context: turn {number} is {text!r}, not a string")
    if not isinstance(response, str):
        raise TypeError(f"response: expected a string, not {response!r}")
