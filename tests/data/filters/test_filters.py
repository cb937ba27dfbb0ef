"""Filters on a small corpus with planted faults, and the laws of all filters."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.config.components import build
from dialog.data.dialogue import SPLITS, Dialogue, Turn
from dialog.data.filters import FILTERS, Filter
from dialog.errors import UserError

Texts = dict[str, list[list[str]]]
utterances = st.sampled_from(
    ["Hi .", "hi", "Where is the red hat ?", "On the big table .", "I see .", "No , not at all ."]
)
splits = st.fixed_dictionaries(
    {split: st.lists(st.lists(utterances, max_size=4), max_size=5) for split in SPLITS}
)


class Records:
    """A split that can be iterated repeatedly, with gaps between its record numbers."""

    def __init__(self, dialogues: list[list[str]]) -> None:
        self.dialogues = dialogues

    def __iter__(self) -> Iterator[tuple[int, Dialogue]]:
        for number, texts in enumerate(self.dialogues):
            yield 3 * number + 1, dialogue(*texts)


def dialogue(*texts: str, facts: tuple[str, ...] = ()) -> Dialogue:
    turns = tuple(Turn("AB"[index % 2], text) for index, text in enumerate(texts))
    return Dialogue("d", turns, facts=tuple(Turn("", fact) for fact in facts))


def dropped(filter: Filter, corpus: Texts) -> list[list[int]]:
    views = {split: Records(corpus.get(split, [])) for split in SPLITS}
    surveyed = filter.survey(views)
    return [sorted(filter.drops(surveyed, number, dialogue)) for number, dialogue in views["train"]]


def filter_of(name: str, **arguments: object) -> Filter:
    return build(FILTERS, {"name": name, **arguments})


@pytest.mark.parametrize("name", FILTERS)
@settings(max_examples=40)
@given(corpus=splits)
def test_drops_is_a_pure_function_of_a_saved_survey(name: str, corpus: Texts) -> None:
    views = {split: Records(corpus[split]) for split in SPLITS}
    surveyed = filter_of(name).survey(views)
    assert surveyed.ndim == 1
    assert surveyed.dtype != object
    file = BytesIO()
    np.save(file, surveyed, allow_pickle=False)
    file.seek(0)
    other, loaded = filter_of(name), np.load(file)
    for number, dialogue in reversed(list(views["train"])):
        turns = sorted(filter_of(name).drops(surveyed, number, dialogue))
        assert turns == sorted(other.drops(loaded, number, dialogue))
        assert len(set(turns)) == len(turns)
        assert set(turns) <= set(range(len(dialogue.turns)))
    assert np.array_equal(surveyed, filter_of(name).survey(views))


def test_leaking_dialogues_are_dropped_whole() -> None:
    shared = ["Where is the hat ?", "On the big table ."]
    corpus = {
        "train": [
            ["Hi .", *shared, "Thanks ."],
            ["Hi .", "Hi ."],
            [shared[1], shared[0]],
            ["so", "ON the big table"],
        ],
        "validation": [["So ?", "On the big table !"]],
        "test": [["Hi .", "Hi ."], shared],
    }
    assert dropped(filter_of("drop_leaking_dialogues"), corpus) == [[0, 1, 2, 3], [], [], [0, 1]]
    assert dropped(filter_of("drop_leaking_dialogues", minimum_words=5), corpus) == [[], [], [], []]
    assert dropped(filter_of("drop_leaking_dialogues", minimum_words=1), corpus)[1] == [0, 1]


@pytest.mark.parametrize(
    ("normalisation", "expected"),
    [("verbatim", [2, 5]), ("words", [2, 3, 5]), ("letters", [2, 3, 4, 5])],
)
def test_the_first_of_repeated_dialogues_stays(normalisation: str, expected: list[int]) -> None:
    train = [
        ["a", "It's fine"],
        ["a"],
        ["a", " It's  fine "],
        ["A", "it s fine"],
        ["a", "its fine"],
        ["a"],
        [],
    ]
    turns = dropped(
        filter_of("drop_duplicates", normalisation=normalisation), {"train": train, "test": train}
    )
    assert [number for number, numbers in enumerate(turns) if numbers] == expected
    assert all(turns[number] == list(range(len(train[number]))) for number in expected)


def test_equal_turns_with_other_facts_are_no_repeat() -> None:
    both = [
        (0, dialogue("Who ?", "He .", facts=("a",))),
        (1, dialogue("Who ?", "He .", facts=("b",))),
    ]
    filter = filter_of("drop_duplicates")
    assert filter.survey({"train": both, "validation": [], "test": []}).tolist() == []
    same = [(number, both[0][1]) for number in range(3)]
    assert filter.survey({"train": same, "validation": [], "test": []}).tolist() == [1, 2]


OPEN = {
    "train": [
        ["a", "I see ."],
        ["b", "I see ."],
        ["c", "I see ."],
        ["c", "d", "I see ."],
        ["e", "f"],
    ]
}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"threshold": 1.9}, [[1], [1], [1], [2], []]),
        ({"threshold": 2.0}, [[], [], [], [], []]),
        ({"threshold": 0.9, "side": "source"}, [[], [], [1], [1], []]),
        ({"threshold": 1.0, "side": "source"}, [[], [], [], [], []]),
        ({"threshold": 0.9, "side": "both"}, [[1], [1], [1], [1, 2], []]),
    ],
)
def test_entropy_drops_pairs_above_the_threshold(
    arguments: dict[str, Any], expected: list[list[int]]
) -> None:
    assert dropped(filter_of("entropy", **arguments), OPEN) == expected


def test_entropy_equal_to_the_threshold_is_kept() -> None:
    train = [[context, "so"] for context in "aaabbb" + "ccc" for _ in range(7)]
    assert not any(dropped(filter_of("entropy", threshold=np.log2(3)), {"train": train}))


@pytest.mark.parametrize("side", ["target", "both"])
def test_entropy_also_drops_first_turns(side: str) -> None:
    train = [["a", "so"], ["b", "so"], ["c", "so"], ["so"]]
    assert dropped(filter_of("entropy", side=side), {"train": train}) == [[1], [1], [1], [0]]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, []),
        ({"min_words": 2}, [0, 3]),
        ({"max_words": 2}, [1, 2]),
        ({"min_characters": 4}, [0, 3]),
        ({"max_characters": 4}, [1, 2]),
        ({"min_words": 1, "max_words": 1}, [1, 2]),
    ],
)
def test_length_limits(arguments: dict[str, Any], expected: list[int]) -> None:
    assert dropped(
        filter_of("length", **arguments), {"train": [["ab", "ab c d", "a b c d", " abc "]]}
    ) == [expected]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("drop_leaking_dialogues", {"minimum_words": 0}, "minimum_words is 0"),
        ("drop_duplicates", {"normalisation": "verbatm"}, "did you mean 'verbatim'"),
        ("entropy", {"side": "bth"}, "did you mean 'both'"),
        ("entropy", {"threshold": -1.0}, r"threshold is -1\.0"),
        ("entropy", {"threshold": float("nan")}, "threshold is nan"),
        ("length", {"min_words": 3, "max_words": 2}, "max_words is 2"),
        ("length", {"max_characters": 0}, "max_characters is 0"),
    ],
)
def test_invalid_arguments_are_errors(name: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        filter_of(name, **arguments)
