"""The survey of the training split: examples after rules and filters, leaks before the filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from dialog.analysis.baselines.training_sample import TrainingPair, survey_training
from dialog.analysis.reservoir import Reservoir
from dialog.data.dialogue import Dialogue, Turn
from dialog.data.examples import ExampleRules
from dialog.data.preparation.job import Job, Limits
from dialog.errors import UserError


def dialogue(id: str, *texts: str) -> Dialogue:
    return Dialogue(id, tuple(Turn("AB"[index % 2], text) for index, text in enumerate(texts)))


SHARED = ("Where is it , sir ?", "Over there , behind the bank .")
TRAIN = [
    dialogue("a", *SHARED, "Thank you ."),
    dialogue("b", "Hello .", "Hi there , how are you ?", "Fine ."),
    dialogue("c", "Hi .", "", "where is it sir", "over there behind the bank"),
]
TEST = [
    dialogue("d", "Hello .", *SHARED),
    dialogue("e", "Hello .", "Hi .", "Thank you .", "Thank you ."),
    dialogue("f", "Over there , behind the bank .", "Where is it , sir ?"),
]


class Corpus:
    def __init__(self, **splits: list[Dialogue]) -> None:
        self.splits = splits

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        if split not in self.splits:
            raise UserError(f"no {split}")
        return iter(self.splits[split])

    def fingerprint(self) -> dict[str, str]:
        return {}


def job(
    *filters: dict[str, object], first_turns: bool = False, train: list[Dialogue] = TRAIN
) -> Job:
    corpus = Corpus(train=train, validation=[], test=TEST)
    rules = ExampleRules(2, first_turns=first_turns)
    return Job(corpus, {"name": "mine"}, {"name": "word"}, rules, Limits(8, 8), filters=filters)


def test_pairs_and_leaks() -> None:
    survey = survey_training(job(), TEST, 100)
    assert survey.sample == [
        TrainingPair(SHARED[0], SHARED[1], True),
        TrainingPair(SHARED[1], "Thank you .", True),
        TrainingPair("Hello .", "Hi there , how are you ?", False),
        TrainingPair("Hi there , how are you ?", "Fine .", False),
        TrainingPair("Hi .", "where is it sir", True),
        TrainingPair("where is it sir", "over there behind the bank", True),
    ]
    assert survey.report.leaked == ["d"]
    assert survey.report.clean == ["e", "f"]


def test_first_turns_have_no_previous_turn() -> None:
    sample = survey_training(job(first_turns=True), TEST, 100).sample
    assert [pair.response for pair in sample if not pair.previous] == [SHARED[0], "Hello .", "Hi ."]


def test_filters_change_the_sample_and_not_the_leaks() -> None:
    survey = survey_training(job({"name": "drop_leaking_dialogues"}), TEST, 100)
    assert [pair.response for pair in survey.sample] == ["Hi there , how are you ?", "Fine ."]
    assert survey.report.leaked == ["d"]


def test_the_sample_is_uniform_and_reproducible() -> None:
    counts: Counter[str] = Counter()
    for start in range(400):
        reservoirs = [Reservoir(3), Reservoir(3)]
        for number in range(start, start + 12):
            for reservoir in reservoirs:
                reservoir.add(TrainingPair("", str((number * 7 + start) % 12), False))
        assert reservoirs[0].items == reservoirs[1].items
        assert len({pair.response for pair in reservoirs[0].items}) == 3
        counts.update(pair.response for pair in reservoirs[0].items)
    assert min(counts.values()) > 60  # 100 expected, standard deviation 8.7


def test_missing_training_split() -> None:
    lost = job()
    del lost.corpus.splits["train"]
    with pytest.raises(UserError, match="no train"):
        survey_training(lost, TEST, 100)
