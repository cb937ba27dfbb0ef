"""Reference rows: metrics of trivial responses and of context-free n-gram models, on all, clean and
leaked dialogues.

A dialogue is leaked if it shares a long pair with the training split (see
`dialog.data.text_matching.leaks`), also with dialogues that a filter drops from it; the others are
clean.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.analysis.baselines.nearest import NearestText
from dialog.analysis.baselines.training_sample import TrainingPair, survey_training
from dialog.analysis.baselines.witten_bell import ORDER, WittenBell
from dialog.analysis.reservoir import SEED
from dialog.analysis.training_responses import read_training_responses
from dialog.data.dialogue import Dialogue
from dialog.data.examples import ExampleRules, example_windows
from dialog.data.preparation.filtering import UsableDialogues
from dialog.data.preparation.job import Job
from dialog.metrics import Measurement

MAX_RESPONSES = 500_000
"""Training responses that are sampled from a larger corpus; the n-gram models take 1.6 KB of memory
for each.
"""
MAX_CONTEXTS = 200_000
"""Training contexts among which the nearest one is searched, sampled from those responses."""
ROWS = 6 + ORDER
"""Number of rows."""
BLOCK = 4096
ALL = "all"

Row = dict[str, Any]
"""An evaluated example as in responses.jsonl, without the response of a model."""
Rows = dict[str, dict[str, float]]
"""Values of metrics by reference row, such as `human` or `ngram_3`."""


class Baselines(NamedTuple):
    """Ids of the leaked dialogues of a split, and the reference rows of each of its subsets."""

    leaked: list[str]
    subsets: dict[str, Rows]  # "all", "clean", "leaked"; a subset without examples has no rows

    def is_leaked(self, dialogue_ids: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether the dialogue of each example is leaked [N]."""
        return np.isin(dialogue_ids, self.leaked)

    def metrics(self, measurement: Measurement, dialogue_ids: Sequence[str]) -> dict[str, Any]:
        """Return "subsets" and "baselines" of metrics.json.

        Args:
            measurement: Metrics of a system's N responses.
            dialogue_ids: The dialogue of each of the N examples.
        """
        masks = _masks(self.is_leaked(dialogue_ids))
        subsets = {
            subset: {
                "examples": int(mask.sum()),
                "dialogues": len(set(compress(dialogue_ids, mask))),
                **(measurement.values_of(mask) if mask.any() else {}),
                "baselines": self.subsets[subset],
            }
            for subset, mask in masks.items()
            if subset != ALL
        }
        return {"subsets": subsets, "baselines": self.subsets[ALL]}


def compute_baselines(
    job: Job,
    split: str,
    build: Callable[[], Measurement],
    progress: Callable[[], object] = lambda: None,
) -> Baselines:
    """Read a split and the training split; return the leaks and the reference rows.

    Memory grows with the evaluated split, and with the training split up to `MAX_RESPONSES`.

    Args:
        job: Corpus, rules and filters; the rows depend on these and on the split only.
        split: The evaluated split.
        build: Returns metrics without responses.
        progress: Called after each row.

    Raises:
        UserError: a split is missing or cannot be read.
    """
    dialogues = [
        dialogue for _, dialogue in UsableDialogues(job.corpus.dialogues, job.rules, split)
    ]
    survey = survey_training(job, dialogues, MAX_RESPONSES)
    examples = list(_examples(dialogues, job.rules))
    baselines = Baselines(survey.report.leaked, {ALL: {}, "clean": {}, "leaked": {}})
    masks = _masks(baselines.is_leaked([row["dialogue_id"] for row in examples]))
    training = read_training_responses(job)
    for name, rows in _rows(survey.sample, examples):
        if training is not None and "response" in rows[0]:
            copies = training.contain([row["response"] for row in rows]).tolist()
            rows = [row | {"train_copy": copy} for row, copy in zip(rows, copies, strict=True)]
        measurement = build()
        for start in range(0, len(rows), BLOCK):
            measurement.add(rows[start : start + BLOCK])
        for subset, mask in masks.items():
            if mask.any():
                baselines.subsets[subset][name] = measurement.values_of(mask)
        progress()
    return baselines


def _masks(leaked: NDArray[np.bool_]) -> dict[str, NDArray[np.bool_]]:
    """Return the examples of each subset as masks [N]."""
    return {ALL: np.ones(len(leaked), dtype=bool), "clean": ~leaked, "leaked": leaked}


def _examples(dialogues: Iterable[Dialogue], rules: ExampleRules) -> Iterator[Row]:
    for dialogue in dialogues:
        for first, response in example_windows(dialogue, rules):
            context = [turn.text for turn in dialogue.turns[first:response]]
            yield {
                "dialogue_id": dialogue.id,
                "context": context,
                "reference": dialogue.turns[response].text,
            }


def _rows(
    sample: Sequence[TrainingPair], examples: Sequence[Row]
) -> Iterator[tuple[str, list[Row]]]:
    """Yield the name of each reference row, and its lines of responses.jsonl."""
    for name, responses in _responses(sample, examples):
        yield (
            name,
            [
                {**row, "response": response}
                for row, response in zip(examples, responses, strict=True)
            ],
        )
    scores = WittenBell(pair.response for pair in sample).score(
        [row["reference"] for row in examples]
    )
    fields = "nll", "reference_tokens", "reference_unknown", "reference_unknown_bytes"
    for order, nll in enumerate(scores.nll, start=1):
        columns = (
            numbers.tolist()
            for numbers in (nll, scores.tokens, scores.unknown, scores.unknown_bytes)
        )
        numbers = (dict(zip(fields, line, strict=True)) for line in zip(*columns, strict=True))
        yield f"ngram_{order}", [row | line for row, line in zip(examples, numbers, strict=True)]


def _responses(
    sample: Sequence[TrainingPair], examples: Sequence[Row]
) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each row of responses, and the responses."""
    yield "human", [row["reference"] for row in examples]
    draw = random.Random(SEED)
    yield "random", [draw.choice(sample).response for _ in examples]
    frequent = Counter(pair.response for pair in sample).most_common(1)[0][0]
    yield "most_frequent", [frequent] * len(examples)
    previous = [row["context"][-1] if row["context"] else "" for row in examples]
    yield "copy", previous
    contexts = draw.sample(sample, MAX_CONTEXTS) if len(sample) > MAX_CONTEXTS else sample
    nearest = nearest_responses(contexts, previous)
    yield "nearest", nearest
    clean = [pair for pair in contexts if not pair.leaks]
    if clean:
        yield (
            "nearest_clean",
            nearest if len(clean) == len(contexts) else nearest_responses(clean, previous),
        )


def nearest_responses(pairs: Sequence[TrainingPair], previous: Sequence[str]) -> list[str]:
    """Return for each turn the response to the nearest training turn by TF-IDF; the first for turns
    without words.

    An empty turn stands for an empty context: it gets the first response without a context, if any.
    """
    index = NearestText([pair.previous for pair in pairs])
    opening = next((pair.response for pair in pairs if not pair.previous), pairs[0].response)
    answers = {"": opening}
    for turn in previous:
        if turn not in answers:
            answers[turn] = pairs[index.nearest(turn)].response
    return [answers[turn] for turn in previous]
