"""Read the training split once: a sample of its responses, and the leaks into an evaluated
split.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dialog.analysis.reservoir import Reservoir
from dialog.data.dialogue import Dialogue
from dialog.data.examples import DialogueWindows, usable_dialogue
from dialog.data.preparation.filtering import blocks, filter_block, survey_filters
from dialog.data.preparation.job import Job
from dialog.data.text_matching.leaks import LeakDetector, LeakReport, hash_long_pairs


class TrainingPair(NamedTuple):
    """A training response and the turn before it, empty if its context is; `leaks` if its dialogue
    does.
    """

    previous: str
    response: str
    leaks: bool


class TrainingSurvey(NamedTuple):
    """A uniform sample of training examples in corpus order if it has all of them, and evaluated
    dialogues by leak.
    """

    sample: list[TrainingPair]
    report: LeakReport


def survey_training(job: Job, evaluated: Sequence[Dialogue], limit: int) -> TrainingSurvey:
    """Read the training split of a job.

    The sample has the examples that models train on, after the filters; leaks are into the
    `evaluated` dialogues from all training dialogues, also those that a filter drops, so they do
    not depend on the filters. It takes about 300 bytes per sampled response.

    Args:
        job: Corpus, rules and filters.
        evaluated: Dialogues without empty turns.
        limit: Most examples of the sample.

    Raises:
        UserError: the training split is missing or cannot be read.
    """
    detector = LeakDetector(evaluated)
    reservoir = Reservoir[TrainingPair](limit)
    filters = survey_filters(job.build_filters(), job.corpus.dialogues, job.rules)
    for start, records in blocks(job.corpus.dialogues("train")):
        usable = (usable_dialogue(record, job.rules, Counter()) for record in records)
        leaking = {
            dialogue.id
            for dialogue in usable
            if dialogue and detector.add_training(hash_long_pairs(dialogue))
        }
        for windows in filter_block(start, records, job.rules, filters).dialogues:
            for pair in _pairs(windows, windows.dialogue.id in leaking):
                reservoir.add(pair)
    return TrainingSurvey(reservoir.items, detector.report())


def _pairs(windows: DialogueWindows, leaks: bool) -> Iterator[TrainingPair]:
    turns = windows.dialogue.turns
    for first, response in windows.windows:
        yield TrainingPair(
            turns[response - 1].text if first < response else "", turns[response].text, leaks
        )
