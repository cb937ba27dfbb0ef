"""A sample of validation examples, and its responses under one setting."""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torchmetrics import Metric

from dialog.build import build_job
from dialog.config.components import Component, build
from dialog.data.batching import collate
from dialog.data.dialogue import Example
from dialog.data.examples import examples
from dialog.data.store.plan import pair_batches
from dialog.errors import UserError
from dialog.generation.responder import check_answered
from dialog.metrics import METRICS, DistinctN, Measurement, RarefiedDistinct, detect_language
from dialog.metrics.scores.family import key
from dialog.runs.run import Run

SPLIT = "validation"
SEED = 0
MEASURED: tuple[Component, ...] = (
    {"name": "f1"},
    {"name": "sacrebleu"},
    {"name": "bleu", "n": 2},
    {"name": "distinct", "n": 1},
    {"name": "distinct", "n": 2},
    {"name": "entropy", "n": 1},
    {"name": "entropy", "n": 2},
    {"name": "unique_ratio"},
    {"name": "repetition", "n": 3},
    {"name": "length_mean"},
)
"""Metrics of each setting: two of overlap with the references, the others of the responses alone.
"""
DIVERSITY = "rarefied_distinct_2"
"""Distinct-2 on equally many bigrams for all settings: `SAMPLED` times the number in the
references.
"""
SAMPLED = 0.5
NAMES = (*(key(component) for component in MEASURED), DIVERSITY)


@dataclass(frozen=True)
class SampleResponses:
    """Responses to the examples of a sample, in its order, and the seconds that they took."""

    responses: list[str]
    seconds: float


@dataclass(frozen=True)
class Sample:
    """Examples drawn from the validation split with a fixed seed, in the order of the corpus."""

    examples: Sequence[Example]
    available: int  # number of examples of the split

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the ids and references; equal for runs that read contexts of different
        lengths.
        """
        return self._hash(lambda example: (example.id, example.response.text))

    @property
    def inputs(self) -> str:
        """SHA-256 of all that a run reads of these examples."""
        return self._hash(
            lambda example: (
                example.id,
                *map(str, (*example.facts, *example.context, example.response)),
            )
        )

    def measure(self, responses: Sequence[str]) -> dict[str, float]:
        """Return the metrics of responses, and the standard error of the mean F1."""
        references = [example.response.text for example in self.examples]
        language = detect_language(references)
        metrics: dict[str, Metric] = {
            key(component): build(METRICS, component, language=language) for component in MEASURED
        }
        bigrams = len(DistinctN(2).items_of(references).hashes)
        metrics[DIVERSITY] = RarefiedDistinct(2, sample=max(1, round(SAMPLED * bigrams)))
        measurement = Measurement(metrics)
        pairs = zip(responses, references, strict=True)
        measurement.add(
            [{"response": response, "reference": reference} for response, reference in pairs]
        )
        values = {name: float(value) for name, value in measurement.values().items()}
        scores = [
            measurement.additive["f1"].value_of(row[None]) for row in measurement.statistics()["f1"]
        ]
        error = float(np.std(scores, ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else 0.0
        return {**values, "f1_standard_error": error}

    def human(self) -> dict[str, float]:
        """Return the metrics of the references themselves."""
        return self.measure([example.response.text for example in self.examples])

    def decode(
        self, run: Run, search: Component, progress: Callable[[int], object]
    ) -> SampleResponses:
        """Generate a response to each example, in batches of similar source length.

        Raises:
            UserError: the scores of the model are not numbers.
        """
        pairs = run.responder.encode_batch(self.examples)
        responses = [""] * len(pairs)
        seconds = 0.0
        for rows in pair_batches(pairs, run.recipe.data.batch_tokens):
            batch = collate([pairs[row] for row in rows], rows.tolist())
            began = time.perf_counter()
            replies = run.responder.generate(
                batch.source, search, ids=[self.examples[row].id for row in rows]
            )
            seconds += time.perf_counter() - began
            check_answered(replies, str(run.folder))
            for row, candidates in zip(rows, replies, strict=True):
                responses[row] = candidates[0].text
            progress(len(rows))
        return SampleResponses(responses, seconds)

    def _hash(self, fields: Callable[[Example], Sequence[Any]]) -> str:
        digest = hashlib.sha256()
        for example in self.examples:
            digest.update(repr(fields(example)).encode())
        return digest.hexdigest()


def draw_sample(run: Run, count: int) -> Sample:
    """Draw ``count`` examples of the validation split of a run's corpus, or all of them if there
    are fewer.

    Raises:
        UserError: the split is missing, empty or cannot be read.
    """
    job = build_job(run.recipe)
    everything = list(examples(job.corpus.dialogues(SPLIT), job.rules, Counter()))
    if not everything:
        raise UserError(
            f"{run.folder}: the corpus has no validation example; settings are selected on this"
            " split only"
        )
    places = sorted(random.Random(SEED).sample(range(len(everything)), min(count, len(everything))))
    return Sample([everything[place] for place in places], len(everything))
