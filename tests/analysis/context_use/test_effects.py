"""Changes in likelihood, with a model that is a formula."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from dialog.analysis.context_use import Likelihood, context_effects
from dialog.data.dialogue import Example, Turn


def example(turns: int, reference: str, dialogue: str) -> Example:
    context = tuple(
        Turn("BA"[(turns - place) % 2 ^ 1], f"{dialogue}{place} w") for place in range(turns)
    )
    return Example(f"{dialogue}#{turns}", dialogue, context, Turn("A", reference), 0)


SAMPLE = [example(1, "abcd", "p"), example(3, "ab", "q"), example(4, "abcdef", "r")]


def by_turns(examples: Sequence[Example]) -> list[Likelihood]:
    """10 nats minus one for each turn of the context, 4 tokens."""
    return [Likelihood(10.0 - len(each.context), 4) for each in examples]


def test_effects_by_hand() -> None:
    """12 bytes and 12 tokens; two examples of three lose 2 + 3 turns, or one each."""
    result = context_effects(SAMPLE, by_turns)
    nats = 9 + 7 + 6
    assert result["plain"]["bits_per_byte"] == pytest.approx(nats / math.log(2) / 12)
    assert result["plain"]["perplexity_token"] == pytest.approx(math.exp(nats / 12))
    rows = {row["perturbation"]: row for row in result["perturbations"]}
    assert rows["only last"]["changed"] == 2
    assert rows["only last"]["bits_per_byte"] == pytest.approx(5 / math.log(2) / 12)
    assert rows["only last"]["perplexity_token"] == pytest.approx(
        math.exp((nats + 5) / 12) - math.exp(nats / 12)
    )
    assert rows["drop first"]["bits_per_byte"] == pytest.approx(2 / math.log(2) / 12)
    assert rows["word reverse"]["bits_per_byte"] == 0
    assert rows["random context"]["changed"] == 3


def test_random_context_by_hand() -> None:
    """The only context of the same number of turns; knowing one's own context is worth 6 nats."""
    pair = [
        example(2, "ab", "p"),
        example(2, "abcd", "q"),
        example(3, "ab", "q"),
        example(3, "ab", "r"),
    ]

    def score(examples: Sequence[Example]) -> list[Likelihood]:
        return [
            Likelihood(2.0 if each.context[0].text[:1] == each.dialogue_id else 8.0, 4)
            for each in examples
        ]

    (row,) = (
        row
        for row in context_effects(pair, score)["perturbations"]
        if row["perturbation"] == "random context"
    )
    assert row["changed"] == 4
    assert row["bits_per_byte"] == pytest.approx(4 * 6 / math.log(2) / 10)


def test_distances_by_hand() -> None:
    """Examples that have a turn at this distance: of 2 + 6 bytes up to 3 turns, of 6 bytes at 4."""
    distances = context_effects(SAMPLE, by_turns)["distance"]
    assert [row["distance"] for row in distances] == [1, 2, 3, 4]
    assert [row["examples"] for row in distances] == [2, 2, 2, 1]
    expected = [2 / math.log(2) / 8] * 3 + [1 / math.log(2) / 6]
    assert [row["bits_per_byte"] for row in distances] == pytest.approx(expected)


def test_changes_without_each_dialogue() -> None:
    """The change over the others: of one dialogue that lost 2 nats over 4 bytes, and one that lost
    6 over 6 bytes.
    """

    def score(examples: Sequence[Example]) -> list[Likelihood]:
        return [
            Likelihood(9.0 - (2.0 if each.dialogue_id == "p" else 6.0) * len(each.context), 4)
            for each in examples
        ]

    pair = [
        example(2, "abcd", "p"),
        example(2, "abcdef", "q"),
        example(3, "ab", "p"),
        example(3, "ab", "q"),
    ]
    (row,) = (
        row
        for row in context_effects(pair, score)["perturbations"]
        if row["perturbation"] == "drop first"
    )
    assert row["changed"] == 2
    assert row["left_out"] == pytest.approx([6 / math.log(2) / 8, 2 / math.log(2) / 6])


def test_each_distinct_context_is_scored_once() -> None:
    seen: list[Example] = []

    def score(examples: Sequence[Example]) -> list[Likelihood]:
        seen.extend(examples)
        return by_turns(examples)

    context_effects(SAMPLE, score)
    contexts = [(each.id, tuple(turn.text for turn in each.context)) for each in seen]
    assert len(contexts) == len(set(contexts)) < 3 * 16


def test_changes_without_effect_are_left_out() -> None:
    single = [example(1, "ab", "p"), example(1, "cd", "q")]
    result = context_effects(single, by_turns)
    assert [row["perturbation"] for row in result["perturbations"]] == ["random context"]
    assert result["distance"] == []
