"""Score references and generate responses over a stream of examples.

Shapes: B rows, T target tokens, S source tokens, H heads, V vocabulary.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import torch

from dialog.analysis.attention.alignment import AlignmentCounts
from dialog.analysis.calibration import SIZE, bin_sums
from dialog.config.components import Component
from dialog.data.batching import Batch, collate
from dialog.data.dialogue import Example
from dialog.data.gold_alignment import alignment
from dialog.data.store.plan import pair_batches
from dialog.data.tokenizers.tokenizer import PAD, UNK
from dialog.generation.responder import Candidate, Responder, check_answered
from dialog.metrics import words
from dialog.models.contracts import AttentionHook
from dialog.models.likelihood import target_scores

BLOCK = 4096
"""Number of examples that are sorted by length together; bounds the memory, whatever the size of
the split.
"""
Gather = Callable[[Any], list[Any]]
"""From this rank's value to the values of all ranks."""


def alone(own: Any) -> list[Any]:
    """Gather in a single process."""
    return [own]


class Scored(NamedTuple):
    """Likelihood of one reference under the model, and what its tokens do not represent."""

    nll: float  # nats, end token included
    tokens: int
    correct: int
    unknown: int = 0  # tokens that are <unk>
    unknown_bytes: int = 0  # of the text that they replace
    lossless: bool = True  # the other tokens decode to the rest of the text
    confidences: tuple[float, ...] = (0.0,) * SIZE  # see `bin_sums`


class Answered(NamedTuple):
    """An example, the likelihood of its reference, and the generated response."""

    example: Example
    scored: Scored
    response: Candidate

    @property
    def exact(self) -> bool:
        """True if the response equals the reference word for word."""
        return self.response.text.split() == self.example.response.text.split()

    def row(self) -> dict[str, Any]:
        """Return a line of responses.jsonl."""
        reference = self.example.response.text
        return {
            "id": self.example.id,
            "dialogue_id": self.example.dialogue_id,
            "context": [turn.text for turn in self.example.context],
            "reference": reference,
            "response": self.response.text,
            "score": self.response.score,
            "nll": self.scored.nll,
            "reference_tokens": self.scored.tokens,
            "reference_correct": self.scored.correct,
            "reference_words": len(words(reference)),
            "reference_bytes": len(reference.encode()),
            "reference_unknown": self.scored.unknown,
            "reference_unknown_bytes": self.scored.unknown_bytes,
        }


@dataclass
class Seconds:
    """A sum of seconds."""

    total: float = 0.0

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Add the seconds of the block."""
        began = time.perf_counter()
        yield
        self.total += time.perf_counter() - began


@dataclass(frozen=True)
class Evaluator:
    """Scores references and generates responses, in batches of similar length under a budget of
    tokens.

    The ranks split the batches of a single process between them, so the results are bit-identical.
    ``gather`` returns the values of all ranks on rank 0, and an empty list on the others.
    ``decoding`` adds up this rank's seconds of generation. ``generator`` generates if it is given;
    the responder then only scores.
    """

    responder: Responder
    search: Component
    batch_tokens: int
    rank: int = 0
    world: int = 1
    gather: Gather = alone
    decoding: Seconds = field(default_factory=Seconds)
    generator: Responder | None = None

    def answers(
        self,
        examples: Iterable[Example],
        aligned: AlignmentCounts | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[Answered]:
        """Yield every example once and in order on rank 0, and nothing on the others.

        Every rank counts the gold alignments of its own examples in ``aligned``. ``progress`` gets
        the number of examples so far.
        """
        stream = iter(examples)
        first = 0
        while block := list(islice(stream, BLOCK)):
            yield from self._block(block, first, aligned, progress)
            first += len(block)

    def _block(
        self,
        block: Sequence[Example],
        first: int,
        aligned: AlignmentCounts | None,
        progress: Callable[[int], object] | None,
    ) -> Iterator[Answered]:
        """Yield the examples of a block, whose first one has the number ``first`` in its split."""
        pairs = self.responder.encode_batch(block)
        own: dict[int, tuple[Scored, Candidate]] = {}
        for rows in islice(pair_batches(pairs, self.batch_tokens), self.rank, None, self.world):
            chosen = [block[row] for row in rows]
            batch = collate((pairs[row] for row in rows), rows.tolist())
            numbered = {first + row: block[row] for row in rows.tolist()}
            hook = None if aligned is None else self._alignment_hook(aligned, numbered)
            scored = [
                self._with_unknown(result, block[row], pairs[row][1][1:-1])
                for row, result in zip(rows, self.score(batch, hook), strict=True)
            ]
            with self.decoding.measured():
                generator = self.generator or self.responder
                ids = [example.id for example in chosen]
                responses = generator.generate(batch.source, self.search, ids=ids)
            for row, result, candidates in zip(rows.tolist(), scored, responses, strict=True):
                check_answered([candidates], block[row].id)
                own[row] = result, candidates[0]
            if progress is not None:
                progress(first + len(own))
        results = {row: result for shard in self.gather(own) for row, result in shard.items()}
        yield from (Answered(block[row], *results[row]) for row in sorted(results))

    def _alignment_hook(
        self, aligned: AlignmentCounts, examples: Mapping[int, Example]
    ) -> AttentionHook | None:
        """Return the hook that compares attention with the gold alignments of examples; None if
        they have none.
        """
        tokenizer = self.responder.tokenizer
        max_source = self.responder.max_source
        layout = self.responder.layout
        gold = {
            number: alignment(tokenizer, example, max_source=max_source, layout=layout)
            for number, example in examples.items()
        }
        return aligned.hook(self.responder.model, gold) if any(gold.values()) else None

    def scores(self, examples: Sequence[Example]) -> list[Scored]:
        """Return the likelihood of the reference of each example, without the fields that depend on
        the tokenizer only.

        Batches and memory are those of `answers`; this process scores all examples.
        """
        results: dict[int, Scored] = {}
        for start in range(0, len(examples), BLOCK):
            pairs = self.responder.encode_batch(examples[start : start + BLOCK])
            for rows in pair_batches(pairs, self.batch_tokens):
                batch = collate((pairs[row] for row in rows), rows.tolist())
                results |= dict(zip((rows + start).tolist(), self.score(batch), strict=True))
        return [results[row] for row in range(len(examples))]

    def _with_unknown(self, scored: Scored, example: Example, ids: list[int]) -> Scored:
        """Set the fields that depend on the tokenizer only."""
        text = example.response.text
        tokenizer = self.responder.tokenizer
        return scored._replace(
            unknown=ids.count(UNK),
            unknown_bytes=tokenizer.unknown_bytes(text, ids),
            lossless=tokenizer.is_lossless(text, ids),
        )

    @torch.inference_mode()
    def score(self, batch: Batch, hook: AttentionHook | None = None) -> list[Scored]:
        """Return -log p of each target in nats, summed in float64 from log-probabilities in float32
        or better.
        """
        model = self.responder.model
        device = next(model.parameters()).device
        source = batch.source.to(device)
        target = batch.target.to(device)
        memory, state = model.start(source, source != PAD, hook)
        decoded, _ = model.decode(target[:, :-1], memory, state, hook)
        targets = target[:, 1:]  # [B, T]
        real = targets != PAD
        scores = target_scores(model.head, decoded, targets, real)
        sums = scores.nll.double().sum(1).tolist()
        confidences = bin_sums(scores.confidence, scores.correct, real).tolist()
        rows = zip(
            sums, real.sum(1).tolist(), scores.correct.sum(1).tolist(), confidences, strict=True
        )
        return [
            Scored(nats, tokens, hits, confidences=tuple(bins)) for nats, tokens, hits, bins in rows
        ]
