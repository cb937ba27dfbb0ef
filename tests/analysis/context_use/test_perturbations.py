"""Changes of a context, by hand."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from dialog.analysis.context_use import (
    PERTURBATIONS,
    draw_dialogues,
    drop_at_distance,
    perturb,
    with_random_contexts,
)
from dialog.data.dialogue import Example, Turn


def example(*texts: str, id: str = "d#3", dialogue: str = "d") -> Example:
    """The last turn is B's, the response A's."""
    turns = tuple(
        Turn("BA"[(len(texts) - place) % 2 ^ 1], text) for place, text in enumerate(texts)
    )
    return Example(id, dialogue, turns, Turn("A", "so ?"), 0)


def texts(changed: Example | None) -> list[str]:
    assert changed is not None
    return [turn.text for turn in changed.context]


THREE = example("a b c", "d e", "f g h")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("only last", ["f g h"]),
        ("reverse", ["f g h", "d e", "a b c"]),
        ("drop first", ["d e", "f g h"]),
        ("drop last", ["a b c", "d e"]),
        ("word reverse", ["c b a", "e d", "h g f"]),
    ],
)
def test_changes_by_hand(name: str, expected: list[str]) -> None:
    changed = perturb(THREE, name)
    assert texts(changed) == expected
    assert changed.response == THREE.response


def test_turns_keep_their_speakers() -> None:
    assert [turn.speaker for turn in THREE.context] == ["B", "A", "B"]
    assert [turn.speaker for turn in perturb(THREE, "drop first").context] == ["A", "B"]
    four = example("a", "b", "c", "d")
    assert [(turn.speaker, turn.text) for turn in perturb(four, "reverse").context] == [
        ("B", "d"), ("A", "c"), ("B", "b"), ("A", "a"),
    ]  # fmt: skip


def test_random_changes() -> None:
    long = example(" ".join(map(str, range(1000))), "x y", "z")
    kept = texts(perturb(long, "word drop"))[0].split()
    assert 640 < len(kept) < 760  # 1000 x 0.7 +- 4 deviations
    assert sorted(kept, key=int) == kept
    shuffled = texts(perturb(long, "word shuffle"))[0].split()
    assert shuffled != sorted(shuffled, key=int) == [str(number) for number in range(1000)]
    orders = {
        tuple(texts(perturb(replace(THREE, id=f"d#{number}"), "shuffle"))) for number in range(100)
    }
    assert len(orders) == 6


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_short_contexts_stay_and_ids_seed(name: str) -> None:
    assert perturb(example("a b c", "d e f"), name) == example("a b c", "d e f")
    assert perturb(THREE, name) == perturb(THREE, name)


def test_words_of_a_script_without_spaces() -> None:
    chinese = example("你好吗", "我很好", "再见")
    assert texts(perturb(chinese, "word reverse")) == ["吗好你", "好很我", "见再"]
    mixed = example("go to 北京 at 9", "b", "c")
    assert texts(perturb(mixed, "word reverse"))[0] == "9 at京北to go"


def test_drop_at_distance() -> None:
    assert texts(drop_at_distance(THREE, 1)) == ["a b c", "d e"]
    assert texts(drop_at_distance(THREE, 3)) == ["d e", "f g h"]
    assert drop_at_distance(THREE, 4) is None
    assert drop_at_distance(example("a", "b"), 1) is None


# ------------------------------------------------------------------ random contexts


def test_random_contexts_are_of_other_dialogues_and_as_long() -> None:
    sample = [
        example(
            *(f"{name}{place}" for place in range(length)), id=f"{name}#{length}", dialogue=name
        )
        for name in "pqrs"
        for length in (0, 1, 2, 3)
    ]
    changed = with_random_contexts(sample)
    for before, after in zip(sample, changed, strict=True):
        assert len(before.context) == len(after.context)
        assert [turn.speaker for turn in after.context] == [turn.speaker for turn in before.context]
        assert not {turn.text[0] for turn in after.context} & {before.dialogue_id}
    assert with_random_contexts(sample[::-1]) == changed[::-1]
    assert len({texts(one)[0][0] for one in changed if one.context}) > 1


def test_random_contexts_without_an_equal() -> None:
    """Of another length if no other dialogue has this one; without another dialogue the context
    stays.
    """
    long, short = (
        example("a", "b", "c", "d", id="p#4", dialogue="p"),
        example("x", id="q#1", dialogue="q"),
    )
    assert [texts(each) for each in with_random_contexts([long, short])] == [
        ["x"],
        ["a", "b", "c", "d"],
    ]
    assert with_random_contexts([long]) == [long]


def test_random_context_has_the_speakers_of_the_example() -> None:
    own = Example("p#2", "p", (Turn("me", "a"), Turn("you", "b")), Turn("me", "c"), 0)
    other = Example("q#2", "q", (Turn("bot", "x"), Turn("man", "y")), Turn("man", "z"), 0)
    assert with_random_contexts([own, other])[0].context == (Turn("you", "x"), Turn("me", "y"))


# ------------------------------------------------------------------ sample


def split(sizes: list[int]) -> list[Example]:
    return [
        example("hi", id=f"d{n}#{turn}", dialogue=f"d{n}")
        for n, size in enumerate(sizes)
        for turn in range(size)
    ]


def test_sample_has_whole_dialogues() -> None:
    sizes = [Random(0).randint(1, 12) for _ in range(300)]
    rows = split(sizes)
    drawn = draw_dialogues(rows, 100)
    assert 88 < len(drawn) <= 100
    names = {row.dialogue_id for row in drawn}
    assert sorted(row.id for row in rows if row.dialogue_id in names) == sorted(
        row.id for row in drawn
    )


def test_sample_does_not_depend_on_the_order_of_the_split() -> None:
    """Nor on the examples that are held at a time: 300 dialogues are pruned several times."""
    rows = split([5] * 300)
    turned = [rows[start + place] for start in range(len(rows) - 5, -1, -5) for place in range(5)]
    assert draw_dialogues(rows, 100) == draw_dialogues(turned, 100)
    everything = draw_dialogues(rows, 10_000)
    assert len(everything) == 1500
    assert everything[:100] == draw_dialogues(rows, 100)


def test_one_long_dialogue_is_a_sample() -> None:
    assert len(draw_dialogues(split([50]), 10)) == 50
    assert draw_dialogues([], 10) == []
