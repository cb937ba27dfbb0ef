"""Trained model with its tokenizer: respond, score, attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.config.schema import Recipe
from dialog.errors import UserError

if TYPE_CHECKING:
    from dialog.data.tokenizers.tokenizer import Tokenizer
    from dialog.generation.responder import Candidate, Likelihoods, Responder
    from dialog.models.seq2seq import Seq2Seq


@dataclass(frozen=True)
class Reply:
    """A response and the other candidates of the search, best first."""

    text: str
    candidates: list[Candidate]
    context: Sequence[str]
    run: Run = field(repr=False)

    def attention(self) -> dict[str, Any]:
        """Return the attention maps of every layer and head for this response."""
        return self.run.attention(self.context, self.text)


@dataclass(frozen=True)
class Run:
    """Trained model of a run folder, or an ensemble of it with the models of ``others``.

    ``load_reverse`` loads the reverse model of another run folder, for the search mmi.
    """

    folder: Path
    name: str
    recipe: Recipe
    model: Seq2Seq
    tokenizer: Tokenizer
    load_reverse: Callable[[str], Likelihoods] = field(repr=False)
    others: tuple[Path, ...] = ()

    @cached_property
    def responder(self) -> Responder:
        """The model with its tokenizer and the recipe's constraints on responses."""
        from dialog.generation.responder import Responder

        data = self.recipe.data
        return Responder(
            self.model,
            self.tokenizer,
            data.max_source,
            self.recipe.generation,
            context_turns=data.context_turns,
            normalise=data.normalise,
            layout=data.layout,
            silence=data.silence,
            load_reverse=self.load_reverse,
        )

    def respond(self, context: Sequence[str], search: Mapping[str, Any] | None = None) -> Reply:
        """Answer the last turn of a context in which two speakers alternate."""
        return self.respond_batch([context], search)[0]

    def respond_batch(self, contexts: Sequence[Sequence[str]], search: Mapping[str, Any] | None = None) -> list[Reply]:
        """Answer several contexts in one batch."""
        responses = self.responder.respond(contexts, None if search is None else dict(search))
        if not all(responses):
            raise UserError(f"{self.folder}: the scores of the model are not numbers")
        return [
            Reply(candidates[0].text, candidates, context, self)
            for candidates, context in zip(responses, contexts, strict=True)
        ]

    def attention(self, context: Sequence[str], response: str) -> dict[str, Any]:
        """Return the attention maps of every layer and head for a response, as ``dialog attention`` writes them."""
        import torch

        from dialog.analysis.attention.maps import attention_maps, maps_to_json, turn_indices
        from dialog.data.tokenizers.tokenizer import PAD

        pair = self.responder.encode(self.responder.example(context, response))
        device = next(self.model.parameters()).device
        source, target = (torch.tensor([ids], device=device) for ids in pair)
        maps = attention_maps(self.model, source, source != PAD, target[:, :-1])
        source_labels, target_labels = (list(map(self.tokenizer.label, ids)) for ids in (pair[0], pair[1][1:]))
        return maps_to_json(maps, 0, source_labels, target_labels, turn_indices(self.model, source[0], len(pair[0])))

    def score(self, context: Sequence[str], response: str) -> float:
        """Return log p(response | context) in nats, end token included."""
        ((nll, _),) = self.likelihoods([(context, response)])
        return -nll

    def likelihoods(self, pairs: Sequence[tuple[Sequence[str], str]]) -> list[tuple[float, int]]:
        """Return -log p(response | context) in nats, and the number of tokens, end token included, of each pair."""
        from dialog.runs.evaluator import Evaluator

        examples = [self.responder.example(context, response) for context, response in pairs]
        evaluator = Evaluator(self.responder, self.recipe.generation.search, self.recipe.data.batch_tokens)
        return [(scored.nll, scored.tokens) for scored in evaluator.scores(examples)]
