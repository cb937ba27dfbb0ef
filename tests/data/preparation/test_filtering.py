"""Filters apply to the training split, and their counts add up."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dialog.config.trust import trusted
from dialog.data.dialogue import Dialogue
from dialog.data.examples import ExampleRules
from dialog.data.preparation.filtering import SurveyedFilter, filter_block
from dialog.data.preparation.job import Job
from dialog.data.preparation.prepare import prepare
from dialog.data.store.store import Store

NAME = "test_filtering.Even"


class Even:
    """Drops every third dialogue, and the responses of odd turns."""

    def survey(self, splits: object) -> np.ndarray:
        return np.array([number for number, _ in splits["train"] if number % 3 == 0])

    def drops(self, known: np.ndarray, number: int, dialogue: Dialogue) -> list[int]:
        turns = range(len(dialogue.turns))
        return list(turns if number in known else turns[1::2])


@pytest.mark.usefixtures("small_blocks")
def test_filters_are_counted_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job: Callable[..., Job]
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    plain = Store(prepare(job(), tmp_path), "train").counts
    folder = prepare(job(filters=(trusted({"name": NAME}),)), tmp_path)
    train, test = Store(folder, "train"), Store(folder, "test")
    assert train.counts[f"dropped dialogues: {NAME}"] == -(-plain["dialogues"] // 3)
    assert (
        train.counts["dialogues"] + train.counts[f"dropped dialogues: {NAME}"] == plain["dialogues"]
    )
    assert train.counts["turns"] + train.counts[f"dropped turns: {NAME}"] == plain["turns"]
    rest = plain["examples"] - len(train) - train.counts[f"dropped examples: {NAME}"]
    assert (
        rest == train.counts[f"dropped turns: {NAME}"] - train.counts[f"dropped dialogues: {NAME}"]
    )
    assert not [key for key in test.counts if NAME in key]


class First:
    """Drops the first response."""

    def drops(self, known: object, number: int, dialogue: Dialogue) -> list[int]:
        return [1]


class Short:
    """Drops dialogues of fewer than four turns."""

    def drops(self, known: object, number: int, dialogue: Dialogue) -> list[int]:
        return list(range(len(dialogue.turns))) if len(dialogue.turns) < 4 else []


def test_examples_of_dropped_dialogues_count_once(dialogue: Callable[..., Dialogue]) -> None:
    filters = [
        SurveyedFilter(name, filter, np.empty(0))
        for name, filter in (("first", First()), ("short", Short()))
    ]
    block = filter_block(
        0,
        [dialogue("stays", *"abcd"), dialogue("goes", *"abc")],
        ExampleRules(3, first_turns=False),
        filters,
    )
    assert sum(len(kept.windows) for kept in block.dialogues) == 2
    assert block.counts["dropped examples: first"] == 1
    assert (block.counts["dropped dialogues: first"], block.counts["dropped dialogues: short"]) == (
        0,
        1,
    )
