from __future__ import annotations

import pytest

from dialog.analysis.buckets import (
    CONTEXT_TURNS,
    MOST_NAMED_ACTS,
    RAREST_WORD,
    act_label,
    label_of,
    rarest_word_count,
    response_acts,
    training_text,
)
from dialog.data.dialogue import Dialogue, Malformed, Turn
from dialog.data.examples import ExampleRules

RULES = ExampleRules(None, first_turns=False, malformed="drop")


def dialogue(id: str, *texts: str, acts: object = None) -> Dialogue:
    turns = tuple(Turn("AB"[place % 2], text) for place, text in enumerate(texts))
    return Dialogue(id, turns, {} if acts is None else {"acts": acts})


@pytest.mark.parametrize(
    ("value", "label"),
    [(0, "0"), (1, "1"), (3, "3"), (4, "4-5"), (5, "4-5"), (6, "6+"), (40, "6+")],
)
def test_labels(value: int, label: str) -> None:
    assert label_of(value, CONTEXT_TURNS) == label


def test_rarest_word() -> None:
    counts, longest = training_text(
        [dialogue("d", "The cat !", "the dog"), dialogue("e", "the", "end"), Malformed("f:1")],
        RULES,
    )
    assert longest == 3
    assert counts == {"the": 3, "cat": 1, "!": 1, "dog": 1, "end": 1}
    assert rarest_word_count("The CAT", counts) == 1
    assert rarest_word_count("the", counts) == 3
    assert rarest_word_count("the cow", counts) == 0
    assert rarest_word_count(" ", counts) is None
    assert [label_of(count, RAREST_WORD) for count in (0, 9, 10, 100)] == [
        "0",
        "1-9",
        "10-99",
        "100+",
    ]


def test_acts_of_responses() -> None:
    """Turn 0 is no response; a dialogue that lost a turn has no acts, and neither have those
    without.
    """
    entries = [
        dialogue("d", "a", "b", "c", acts=[1, "ask", ["sd", "qy", "sd"]]),
        dialogue("e", "a", " ", "c", acts=[1, 2, 3]),
        dialogue("f", "a", "b"),
        Malformed("f:1"),
    ]
    assert response_acts(entries, RULES) == {"d#1": "ask", "d#2": "qy+sd"}
    assert act_label([["Inform", "hotel"], ["Ask", "price"]]) == "Ask+Inform"


def test_rare_acts_are_other() -> None:
    """Act k has k + 1 responses."""
    acts = [number for number in range(MOST_NAMED_ACTS + 2) for _ in range(number + 1)]
    labels = response_acts([dialogue("d", *["a"] * (len(acts) + 1), acts=[0, *acts])], RULES)
    assert list(labels.values()).count("other") == 3
    assert set(labels.values()) == {
        "other",
        *(str(number) for number in range(2, MOST_NAMED_ACTS + 2)),
    }
