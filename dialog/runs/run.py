"""Trained model with its tokenizer: respond, score, attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.config.schema import Recipe
from dialog.config.trust import NO_TRUST, Trust
from dialog.errors import UserError
from dialog.escaping import printable

if TYPE_CHECKING:
    from dialog.analysis.attention.split import Encoding
    from dialog.data.dialogue import Example
    from dialog.data.tokenizers.tokenizer import Tokenizer
    from dialog.generation.engine_step import EngineStep
    from dialog.generation.responder import Candidate, Likelihoods, Responder
    from dialog.models.seq2seq import Seq2Seq
    from dialog.report.drawing.attention.reading import AttentionReading


@dataclass(frozen=True)
class Reply:
    """A response and the other candidates of the search, best first."""

    text: str
    candidates: list[Candidate]
    context: Sequence[str]
    run: Run = field(repr=False)

    def attention(self) -> AttentionReading:
        """Return the attention maps of every layer and head over the tokens that the search has
        chosen.
        """
        return self.run.attention(self.context, self.candidates[0])

    def _repr_html_(self) -> str:
        """Return context and candidates as a table for notebooks; all text is escaped, and none is
        read as TeX.
        """
        from html import escape

        turns = "<br>".join(escape(printable(turn)) for turn in self.context)
        rows = [
            f'<td style="text-align: left">{escape(printable(candidate.text))}</td>'
            f"<td>{candidate.score:.2f}</td><td>{candidate.tokens}</td>"
            for candidate in self.candidates
        ]
        return (
            '<table class="tex2jax_ignore mathjax_ignore"><caption style="text-align:'
            f' left">{turns}</caption>'
            '<tr><th style="text-align:'
            ' left">response</th><th>log-probability</th><th>tokens</th></tr>'
            f"{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"
        )


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
    weights: str = ""  # SHA-256 of the file that was loaded
    precision: str = "float32"  # see `dialog.load`
    ablated: tuple[str, ...] = ()  # removed attention heads
    trust: Trust = NO_TRUST  # what a search may import
    engine: EngineStep | None = field(default=None, repr=False)  # see `Responder`

    def __repr__(self) -> str:
        size = sum(parameter.numel() for parameter in self.model.parameters())
        folders = f"folder={str(self.folder)!r}"
        if self.others:
            folders += f", others={[str(folder) for folder in self.others]}"
        return (
            f"Run({self.name}, {folders}, {size:,} parameters, vocabulary {len(self.tokenizer):,})"
        )

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
            int8=self.precision == "int8",
            engine=self.engine,
        )

    def respond(
        self,
        context: Sequence[str],
        search: str | Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> Reply:
        """Answer the last turn of a context in which two speakers alternate; see
        `respond_batch`.
        """
        return self.respond_batch([context], search, **settings)[0]

    def respond_batch(
        self,
        contexts: Sequence[Sequence[str]],
        search: str | Mapping[str, Any] | None = None,
        *,
        ids: Sequence[str] | None = None,
        **settings: Any,
    ) -> list[Reply]:
        """Answer several contexts in one batch.

        A search that draws gives a context the same reply in any batch. With `ids`, such as the
        example ids of an evaluation, its draws depend on the id too. Without ids, equal contexts
        are numbered, so that their replies differ.

        Args:
            contexts: Of any number.
            search: Replaces the recipe's: a component, or a name such as "beam5".
            ids: One per context.
            settings: Arguments of the search and constraints, such as `temperature=0.7`.
        """
        from dialog.generation.responder import check_answered

        responses = self.responder.respond(contexts, self._search(search, settings), ids=ids)
        check_answered(responses, str(self.folder))
        return [
            Reply(candidates[0].text, candidates, context, self)
            for candidates, context in zip(responses, contexts, strict=True)
        ]

    def _search(
        self, search: str | Mapping[str, Any] | None, settings: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Return the search to use; None is the recipe's."""
        if not settings and not isinstance(search, str):
            return None if search is None else self.trust.allow(dict(search))
        from dialog.config.compose import group_files
        from dialog.generation.search_shorthand import component_of, with_short_settings

        files = group_files(self.folder / "recipe.yaml")["generation"]
        chosen = {"search": search, **settings} if search is not None else settings
        return self.trust.allow(
            component_of(with_short_settings(self.recipe.generation, files, chosen))
        )

    def attention(self, context: Sequence[str], response: str | Candidate) -> AttentionReading:
        """Return the attention maps of every layer and head for a response, as ``dialog attention``
        writes them.

        Of a generated response, the maps are over the tokens that the search has chosen, which may
        differ from the tokens of its text.
        """
        from dialog.report.drawing.attention.reading import AttentionReading

        example = self.responder.example(
            context, response if isinstance(response, str) else response.text
        )
        ids = None if isinstance(response, str) else response.ids
        reading = self.attention_of_example(example, ids)
        return AttentionReading(
            **reading, unread_turns=list(context[: len(context) - len(example.context)])
        )

    def attention_of_example(
        self, example: Example, response: Sequence[int] | None = None
    ) -> AttentionReading:
        """Return the attention maps of an example; `response` replaces the tokens of its text, end
        token included.

        "rollout" has the `rollout` [T, S] through all layers; None for a single network without
        self-attention, where it is the last map.
        """
        import torch

        from dialog.analysis.attention.maps import (
            attention_maps,
            maps_with_tokens,
            rollout,
            turn_indices,
        )
        from dialog.analysis.attention.token_kinds import token_groups
        from dialog.data.tokenizers.tokenizer import BOS, PAD
        from dialog.report.drawing.attention.reading import AttentionReading

        source, target = self.responder.encode(example)
        target = target if response is None else [BOS, *response]
        device = next(self.model.parameters()).device
        sources, targets = (torch.tensor([ids], device=device) for ids in (source, target))
        maps = attention_maps(self.model, sources, sources != PAD, targets[:, :-1])
        context, predicted = (list(map(self.tokenizer.label, ids)) for ids in (source, target[1:]))
        data = self.recipe.data
        several = len(self.model.members) > 1 or any(one.kind == "self" for one in maps)
        rolled = rollout(maps) if several else None
        return AttentionReading(
            **maps_with_tokens(
                maps, 0, context, predicted, turn_indices(self.model, sources[0], len(source))
            ),
            rollout=None if rolled is None else rolled[0].float().cpu().numpy(),
            **token_groups(
                self.tokenizer,
                example,
                source,
                target[1:],
                max_source=data.max_source,
                layout=data.layout,
            ),
        )

    def attention_statistics(
        self, split: str, *, sample: int | None = None, quiet: bool = False
    ) -> dict[str, Any]:
        """Return statistics of each attention head over a split of the run's corpus: see
        `split_statistics`.

        Raises:
            UserError: the model has no attention, or the split no examples.
        """
        from dialog.analysis.attention.split import SAMPLE, split_statistics

        stream = self._examples(split, "attention", quiet=quiet)
        sample = SAMPLE if sample is None else sample
        measured = split_statistics(self.model, self._encoding, stream, sample=sample)
        self._check_measured(split, measured["examples"])
        if not measured["rows"]:
            raise UserError(f"{self.folder}: the model has no attention, so it has no statistics")
        return {"split": split, **measured}

    def head_ablation(
        self, split: str, *, sample: int | None = None, quiet: bool = False
    ) -> dict[str, Any]:
        """Return the importance of each head (validation split), and bits per byte of a split as
        heads are removed.

        Each is measured on a uniform sample; see `head_ablation` in `analysis/attention/split.py`.

        Raises:
            UserError: the model has no multi-head attention, or a split no examples.
        """
        from dialog.analysis.attention.split import ABLATION_SAMPLE, head_ablation
        from dialog.analysis.reservoir import Reservoir
        from dialog.data.dialogue import Example
        from dialog.models.attention.heads import heads_of

        if not heads_of(self.model):
            raise UserError(
                f"{self.folder}: the model has no multi-head attention, whose heads could be"
                " removed"
            )
        samples = []
        for part in ("validation", split):
            reservoir = Reservoir[Example](ABLATION_SAMPLE if sample is None else sample)
            for example in self._examples(part, "reading", quiet=quiet):
                reservoir.add(example)
            self._check_measured(part, len(reservoir.items))
            samples.append(reservoir.items)
        measured = head_ablation(self.model, self._encoding, *samples)
        return {"split": split, "ranking_split": "validation", **measured}

    def _examples(self, split: str, title: str, *, quiet: bool) -> Iterator[Example]:
        """Yield the examples of a split, and show the progress."""
        from collections import Counter

        from dialog.build import build_job
        from dialog.data.dialogue import SPLITS
        from dialog.data.examples import examples
        from dialog.report.progress import ProgressBars

        if split not in SPLITS:
            raise UserError(f"unknown split {split!r}; choose from {', '.join(SPLITS)}")
        job = build_job(self.recipe)
        stream = examples(job.corpus.dialogues(split), job.rules, Counter())
        with ProgressBars(quiet=quiet) as bars:
            for number, example in enumerate(stream):
                bars.show(f"{title} {split}", number, None)
                yield example

    def _check_measured(self, split: str, examples: int) -> None:
        if not examples:
            raise UserError(f"{self.folder}: the {split} split has no examples; check data.path")

    @cached_property
    def _encoding(self) -> Encoding:
        from dialog.analysis.attention.split import Encoding

        data = self.recipe.data
        return Encoding(self.tokenizer, data.max_source, data.layout, data.batch_tokens)

    def score(self, context: Sequence[str], response: str) -> float:
        """Return log p(response | context) in nats, end token included."""
        ((nll, _),) = self.likelihoods([(context, response)])
        return -nll

    def likelihoods(self, pairs: Sequence[tuple[Sequence[str], str]]) -> list[tuple[float, int]]:
        """Return -log p(response | context) in nats, and the number of tokens, end token included,
        of each pair.
        """
        from dialog.runs.evaluator import Evaluator

        examples = [self.responder.example(context, response) for context, response in pairs]
        evaluator = Evaluator(
            self.responder, self.recipe.generation.search, self.recipe.data.batch_tokens
        )
        return [(scored.nll, scored.tokens) for scored in evaluator.scores(examples)]


def run_names(runs: Sequence[Run]) -> list[str]:
    """Return a short name for each run: of its recipe, else of its folder, numbered if both are
    equal.
    """
    for names in ([run.name for run in runs], [run.folder.resolve().name for run in runs]):
        if len(set(names)) == len(names):
            return names
    return [f"{run.name} {number}" for number, run in enumerate(runs, start=1)]
