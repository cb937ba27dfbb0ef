"""Reference rows by hand, on all, clean and leaked dialogues."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dialog.analysis.baselines import rows as rows_module
from dialog.analysis.baselines.rows import Baselines, compute_baselines, nearest_responses
from dialog.analysis.baselines.training_sample import TrainingPair
from dialog.analysis.baselines.witten_bell import WittenBell
from dialog.data.dialogue import Dialogue, Turn
from dialog.data.examples import ExampleRules
from dialog.data.preparation.job import Job, Limits
from dialog.metrics import Measurement, build_metrics


def dialogue(id: str, *texts: str) -> Dialogue:
    return Dialogue(id, tuple(Turn("AB"[index % 2], text) for index, text in enumerate(texts)))


class Corpus:
    def __init__(self, train: list[Dialogue], test: list[Dialogue]) -> None:
        self.splits = {"train": train, "validation": [], "test": test}

    def dialogues(self, split: str) -> list[Dialogue]:
        return self.splits[split]

    def fingerprint(self) -> dict[str, str]:
        return {}


TRAIN = [
    dialogue("a", "where is it ?", "it is over there", "thank you ."),
    dialogue("b", "hello .", "good morning", "thank you ."),
    dialogue("c", "where is the park ?", "in the town"),
]
TEST = [
    dialogue("d", "Where is it ?", "It is over there ."),  # shares a long pair with a
    dialogue("e", "where is the bank ?", "in the town", "thank you ."),
]


def baselines(
    train: list[Dialogue] = TRAIN, test: list[Dialogue] = TEST, *, first_turns: bool = False
) -> Baselines:
    rules = ExampleRules(None, first_turns=first_turns)
    job = Job(Corpus(train, test), {"name": "mine"}, {"name": "word"}, rules, Limits(8, 8))
    return compute_baselines(job, "test", lambda: Measurement(build_metrics([])))


def test_leaks_and_subsets() -> None:
    leaked, subsets = baselines()
    assert leaked == ["d"]
    texts = ["human", "random", "most_frequent", "copy", "nearest", "nearest_clean"]
    assert {subset: list(rows) for subset, rows in subsets.items()} == {
        subset: [*texts, *(f"ngram_{order}" for order in range(1, 6))]
        for subset in ("all", "clean", "leaked")
    }


def test_responses_by_hand() -> None:
    """F1 of each response, without articles: "in the town" has two words."""
    leaked, clean = baselines().subsets["leaked"], baselines().subsets["clean"]
    assert leaked["human"]["f1"] == clean["human"]["f1"] == 100
    assert leaked["copy"]["f1"] == pytest.approx(100 * 4 / 7)  # it, is: 2 shared words, of 3 and 4
    assert clean["copy"]["f1"] == 0
    assert leaked["most_frequent"]["f1"] == 0
    assert clean["most_frequent"]["f1"] == 50  # "thank you ." is right once
    assert leaked["nearest"]["f1"] == 100
    assert leaked["nearest_clean"]["f1"] == 0  # "in the town", after "where is the park ?"
    assert clean["nearest"]["f1"] == clean["nearest_clean"]["f1"] == 50
    assert (
        clean["nearest"]["length_mean"] == 3
    )  # "in the town" twice: "in the town" and "where is the park ?" share "the"


def test_random_responses_are_training_responses() -> None:
    rows = baselines().subsets["all"]
    assert rows["random"] == baselines().subsets["all"]["random"]
    assert 2 <= rows["random"]["length_mean"] <= 4
    assert rows["most_frequent"]["unique_ratio"] == pytest.approx(1 / 3)


def test_likelihood_rows() -> None:
    """An unknown token is charged 8 bits per byte, and for perplexity per token nothing, as for a
    model.
    """
    scores = WittenBell(turn.text for each in TRAIN for turn in each.turns[1:]).score(
        ["It is over there ."]
    )
    row = baselines().subsets["leaked"]["ngram_3"]
    nats, size = scores.nll[2, 0], len("It is over there .")
    assert scores.tokens.tolist() == [6]
    assert row["perplexity_token"] == pytest.approx(math.exp(nats / 6))
    # "It" is unknown
    assert row["bits_per_byte"] == pytest.approx((nats / math.log(2) + 8 * 2) / size)
    assert row["unknown_ratio"] == pytest.approx(1 / 6)
    assert row["nll_nats"] == pytest.approx(nats)
    assert "f1" not in row
    assert "bits_per_byte" not in baselines().subsets["leaked"]["human"]


def test_first_turns_answer_an_empty_context() -> None:
    rows = baselines(first_turns=True).subsets["all"]
    assert rows["copy"]["length_mean"] == pytest.approx((0 + 4 + 0 + 5 + 3) / 5)
    pairs = [
        TrainingPair("a", "x", False),
        TrainingPair("", "first", False),
        TrainingPair("", "second", False),
    ]
    assert nearest_responses(pairs, ["", "a", "?"]) == ["first", "x", "x"]
    assert nearest_responses(pairs[:1], ["", "a"]) == ["x", "x"]


def test_without_clean_or_leaked_dialogues() -> None:
    clean = baselines(TRAIN[1:])
    assert clean.leaked == []
    assert clean.subsets["leaked"] == {}
    assert clean.subsets["all"] == clean.subsets["clean"]
    assert clean.subsets["all"]["nearest"] == clean.subsets["all"]["nearest_clean"]
    everything = baselines(TRAIN[:1], TEST[:1])
    assert everything.subsets["clean"] == {}
    assert "nearest_clean" not in everything.subsets["all"]


def test_large_corpora_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "MAX_RESPONSES", 3)
    monkeypatch.setattr(rows_module, "MAX_CONTEXTS", 2)
    rows = baselines().subsets["all"]
    assert rows.keys() == baselines().subsets["all"].keys()
    assert np.isfinite(rows["ngram_5"]["bits_per_byte"])


def test_scripts_without_spaces() -> None:
    train = [dialogue("a", "你想去哪里", "去北京"), dialogue("b", "几点了", "三点")]
    rows = baselines(train, [dialogue("c", "你想去哪里吃饭", "去北京饭店")]).subsets["all"]
    assert rows["nearest"]["f1"] == pytest.approx(100 * 6 / 8)
    assert rows["ngram_1"]["unknown_ratio"] == pytest.approx(2 / 6)
