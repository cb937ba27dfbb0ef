"""Rules: what they select, what they say, and texts that are no rule."""

from __future__ import annotations

import pytest

from dialog.errors import UserError
from dialog.tuning.generation.page import selected_words
from dialog.tuning.generation.rule import on_frontier, parse_rule

NAMES = ("f1", "distinct_2", "repetition_3")
HUMAN = {"f1": 100.0, "distinct_2": 0.8, "repetition_3": 0.01}


def values(f1: float, distinct_2: float, repetition_3: float = 0.0) -> dict[str, float]:
    return {"f1": f1, "distinct_2": distinct_2, "repetition_3": repetition_3}


SETTINGS = [values(12, 0.1), values(9, 0.4, 0.3), values(8, 0.5), values(8, 0.7)]


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("f1", 0),
        ("f1 if distinct_2 >= 0.5 human", 1),  # a bound that is met exactly
        ("f1 if distinct_2 >= 0.5 human and repetition_3 <= 0.1", 2),  # the first of equal ones
        ("f1 if distinct_2>=0.41", 2),
        ("repetition_3 if f1 >= 8.5", 0),  # lower is better
        ("distinct_2", 3),
        ("f1 if distinct_2 >= 2 human", 3),  # none: the nearest
    ],
)
def test_selected_setting(text: str, place: int) -> None:
    assert parse_rule(text, NAMES).select(SETTINGS, HUMAN) == place


def test_rule_in_words() -> None:
    words = parse_rule("f1 if  distinct_2 >= 0.5 human and repetition_3 <= 0.1", NAMES).describe(
        HUMAN
    )
    assert (
        words == "the highest F1 among the settings with Distinct-2 of at least 0.4000 (0.5 of the"
        " references' 0.8000) and Repeated 3-gram of at most 10.0 %"
    )
    assert (
        parse_rule("repetition_3", NAMES).describe(HUMAN)
        == "the lowest Repeated 3-gram of all settings"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f2", "unknown metric in --rule 'f2'; choose from f1"),
        ("", "unknown metric in --rule ''"),
        ("f1 if", "--rule: '' is not a condition; write METRIC if METRIC >= NUMBER"),
        ("f1 if distinct_2 > 0.5", "--rule: 'distinct_2 > 0.5' is not a condition"),
        ("f1 if distinct_2 >= 1.2.3", "is not a condition"),
        ("f1 if distinct >= 0.5", "unknown metric in --rule 'distinct'; did you mean 'distinct_2'"),
    ],
)
def test_invalid_rule(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message.replace("(", r"\(")):
        parse_rule(text, NAMES)


def test_frontier_has_the_points_that_none_exceeds() -> None:
    assert on_frontier([(1, 5), (2, 4), (2, 4), (2, 3), (1, 4), (3, 1)]) == [
        True,
        True,
        True,
        False,
        False,
        True,
    ]


def test_the_name_of_a_setting_cannot_control_the_terminal() -> None:
    run = {"selected": "a\x1b[31m", "conditions_met": True}
    assert selected_words({"rule": {"words": "highest F1"}}, run) == "a\\x1b[31m: highest F1"
