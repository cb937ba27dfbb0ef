"""Likelihood, responses and attention over a stream of examples.

Shapes: B rows, T target tokens, S source tokens, H heads, V vocabulary.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from dialog.analysis.alignment import AlignmentAccuracy
from dialog.config.components import Component
from dialog.data.batching import Batch, collate
from dialog.data.dialogue import Example
from dialog.data.gold_alignment import alignment
from dialog.data.store.layout import encode_example
from dialog.data.store.length_classes import by_length
from dialog.data.store.plan import Plan
from dialog.data.tokenizers.tokenizer import PAD
from dialog.escaping import to_json
from dialog.generation.responder import Candidate, Responder
from dialog.metrics import METRICS, Likelihood

BLOCK = 4096
"""Examples that are sorted by length at a time: memory does not grow with the split."""


Gather = Callable[[Any], list[Any]]
"""From what a process has to what each of them has."""


def alone(own: Any) -> list[Any]:  # noqa: ANN401 - of any type
    """What one process has is all."""
    return [own]


class Scored(NamedTuple):
    """What the model makes of one reference."""

    nll: float  # nats, end token included
    tokens: int
    correct: int


class Answered(NamedTuple):
    """An example, its likelihood and the model's own response."""

    example: Example
    scored: Scored
    response: Candidate

    @property
    def exact(self) -> bool:
        """Whether the response is the reference, word for word."""
        return self.response.text.split() == self.example.response.text.split()

    def row(self) -> dict[str, Any]:
        """A line of responses.jsonl."""
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
            "reference_words": len(reference.split()),
            "reference_bytes": len(reference.encode()),
        }


@dataclass
class Evaluation:
    """Sums over a split, fed with one answered example after the other."""

    likelihoods: list[Likelihood] = field(default_factory=list)
    responses: list[str] = field(default_factory=list)
    references: list[str] = field(default_factory=list)
    dialogues: set[str] = field(default_factory=set)
    questions: int = 0
    answered: int = 0
    fingerprint: Any = field(default_factory=hashlib.sha256)

    def add(self, each: Answered) -> None:
        """Count one example."""
        reference = each.example.response.text
        self.likelihoods.append(
            Likelihood.of(reference, each.scored.nll, tokens=each.scored.tokens, correct=each.scored.correct)
        )
        if len(self.likelihoods) >= BLOCK:
            self.likelihoods = [Likelihood.total(self.likelihoods)]
        self.responses.append(each.response.text)
        self.references.append(reference)
        self.dialogues.add(each.example.dialogue_id)
        if each.example.response.copies:
            self.questions += 1
            self.answered += each.exact
        for text in (*(turn.text for turn in each.example.context), reference):
            self.fingerprint.update(text.encode() + b"\0")
        self.fingerprint.update(b"\1")

    def write(self, answers: Iterable[Answered], folder: Path) -> Path:
        """Count answers, and write a line for each into a file that is yet to be given its name."""
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / ".responses.partial"
        try:
            with partial.open("w", encoding="utf-8") as file:
                for each in answers:
                    self.add(each)
                    file.write(to_json(each.row()) + "\n")
        except BaseException:
            partial.unlink()
            raise
        return partial

    def metrics(self, split: str) -> dict[str, Any]:
        """What metrics.json holds."""
        likelihood = Likelihood.total(self.likelihoods)
        found: dict[str, Any] = {
            "split": split,
            "examples": likelihood.examples,
            "dialogues": len(self.dialogues),
            "fingerprint": self.fingerprint.hexdigest(),
            **likelihood.metrics(),
            **{name: metric(self.responses, self.references) for name, metric in METRICS.items()},
        }
        if self.questions:
            found |= {"questions": self.questions, "answer_accuracy": self.answered / self.questions}
        return found


@dataclass(frozen=True)
class Evaluator:
    """Scores references and answers contexts, in batches of like length under a budget of tokens.

    Several processes take turns in the batches that one would make, so that what comes out is the same to the bit:
    ``gather`` gives the first process what each has, and the others an empty list.
    """

    responder: Responder
    search: Component
    batch_tokens: int
    rank: int = 0
    world: int = 1
    gather: Gather = alone

    def answers(
        self,
        examples: Iterable[Example],
        aligned: AlignmentAccuracy | None = None,
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[Answered]:
        """Each example once, in its order, in the first process; in the others nothing.

        Gold alignments are counted where examples have them, by each process for its own.
        """
        stream = iter(examples)
        while block := list(islice(stream, BLOCK)):
            yield from self._block(block, aligned, progress)

    def _block(
        self, block: Sequence[Example], aligned: AlignmentAccuracy | None, progress: Callable[[int], object] | None
    ) -> Iterator[Answered]:
        tokenizer, max_source = self.responder.tokenizer, self.responder.max_source
        pairs = [encode_example(tokenizer, each, max_source=max_source, max_target=None) for each in block]
        sources = np.array([len(source) for source, _ in pairs])
        targets = np.array([len(target) - 1 for _, target in pairs])
        own: dict[int, tuple[Scored, Candidate]] = {}
        batches = Plan(by_length(sources, targets), budget=self.batch_tokens).batches()
        for rows in islice(batches, self.rank, None, self.world):
            chosen = [block[row] for row in rows]
            batch = collate((pairs[row] for row in rows), rows.tolist())
            gold = [alignment(tokenizer, each, max_source=max_source) for each in chosen] if aligned else None
            scored = self.score(batch, aligned, gold)
            replies = self.responder.generate(batch.source, self.search)
            own |= dict(zip(rows.tolist(), zip(scored, replies, strict=True), strict=True))
            if progress is not None:
                progress(len(rows))
        found = {row: each for share in self.gather(own) for row, each in share.items()}
        if progress is not None:
            progress(len(found) - len(own))
        yield from (Answered(block[row], *found[row]) for row in sorted(found))

    @torch.inference_mode()
    def score(
        self, batch: Batch, aligned: AlignmentAccuracy | None = None, gold: list[dict[int, int]] | None = None
    ) -> list[Scored]:
        """-log p of each target, summed in float64 from log-probabilities in float32 or better."""
        model = self.responder.model
        device = next(model.parameters()).device
        source, target = batch.source.to(device), batch.target.to(device)
        watch = aligned.hook(model, gold) if aligned is not None and gold is not None and any(gold) else None
        logits = model(source, source != PAD, target[:, :-1], watch)  # [B, T, V]
        targets = target[:, 1:]  # [B, T]
        real = targets != PAD
        scores = logits if logits.dtype.itemsize >= 4 else logits.float()
        nll = scores.logsumexp(-1) - scores.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # [B, T]
        sums = (nll.double() * real).sum(1).tolist()
        correct = ((scores.argmax(-1) == targets) & real).sum(1).tolist()
        return [Scored(*each) for each in zip(sums, real.sum(1).tolist(), correct, strict=True)]
