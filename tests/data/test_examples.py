"""Turns that become examples, and the counts of dropped dialogues and turns."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.dialogue import Copy, Dialogue, Entry, Malformed, Turn
from dialog.data.examples import ExampleRules, examples
from dialog.errors import UserError

texts = st.sampled_from(["", " ", "\u00a0\u3000\t", "hi", "how are you ?", " fine "])
dialogue_turns = st.lists(st.builds(Turn, st.sampled_from("AB"), texts), max_size=6).map(tuple)
corpora = st.lists(st.one_of(st.none(), dialogue_turns), max_size=6).map(
    lambda splits: [
        Malformed(f"file:{number}: broken") if turns is None else Dialogue(f"d{number}", turns)
        for number, turns in enumerate(splits)
    ]
)


def dialogue(*texts: str) -> Dialogue:
    return Dialogue("d", tuple(Turn("AB"[index % 2], text) for index, text in enumerate(texts)))


def test_the_context_is_the_turns_directly_before() -> None:
    result = list(
        examples([dialogue("a", "b", "c", "d")], ExampleRules(2, first_turns=False), Counter())
    )
    assert [
        (e.id, e.first, "".join(t.text for t in e.context), e.response.text) for e in result
    ] == [
        ("d#1", 0, "a", "b"),
        ("d#2", 0, "ab", "c"),
        ("d#3", 1, "bc", "d"),
    ]


def test_first_turns_have_an_empty_context() -> None:
    first, *rest = examples([dialogue("a", "b")], ExampleRules(2, first_turns=True), Counter())
    assert (first.id, first.context, first.first, first.response.text) == ("d#0", (), 0, "a")
    assert [e.id for e in rest] == ["d#1"]


rules = st.builds(
    ExampleRules,
    st.one_of(st.none(), st.integers(0, 4)),
    st.booleans(),
    responder=st.sampled_from([None, "A", "B"]),
    normalise=st.booleans(),
    merge_turns=st.booleans(),
    reverse=st.booleans(),
    max_turn_characters=st.sampled_from([1, 5, 10_000]),
    malformed=st.just("drop"),
)


@given(corpora, rules)
def test_counts_add_up(entries: list[Entry], rules: ExampleRules) -> None:
    counts: Counter[str] = Counter()
    result = list(examples(entries, rules, counts))
    for unit, read in (
        ("dialogues", len(entries)),
        ("turns", sum(len(each.turns) for each in entries if isinstance(each, Dialogue))),
    ):
        assert counts[f"{unit} read"] == read
        dropped = sum(
            number for key, number in counts.items() if key.startswith(f"dropped {unit}: ")
        )
        assert counts[unit] + dropped == read
    assert counts["dropped dialogues: malformed"] == sum(
        isinstance(each, Malformed) for each in entries
    )
    assert counts["examples"] == len(result) <= counts["turns"]
    if rules.responder is None:
        assert len(result) == counts["turns"] - (0 if rules.first_turns else counts["dialogues"])
    assert len({example.id for example in result}) == len(result)
    for example in result:
        assert all(turn.text for turn in (*example.context, example.response))
        assert rules.context_turns is None or len(example.context) <= rules.context_turns
        assert rules.responder in (None, example.response.speaker)
        assert all(
            len(turn.text) <= rules.max_turn_characters
            for turn in (*example.context, example.response)
        )
        if rules.normalise and rules.max_turn_characters > 20:
            assert all(
                turn.text == turn.text.strip() for turn in (*example.context, example.response)
            )
        if rules.merge_turns:
            speakers = [turn.speaker for turn in (*example.context, example.response)]
            assert all(one != other for one, other in pairwise(speakers))


def test_malformed_records_are_errors_by_default() -> None:
    with pytest.raises(UserError, match=r"here:3: broken.*data\.malformed=drop"):
        list(examples([Malformed("here:3: broken")], ExampleRules(2, first_turns=False), Counter()))


@given(corpora)
def test_a_reversed_dialogue_swaps_context_and_response(entries: list[Entry]) -> None:
    def pairs(*, reverse: bool) -> set[tuple[str, str, str]]:
        rules = ExampleRules(1, first_turns=False, reverse=reverse, malformed="drop")
        result = examples(entries, rules, Counter())
        texts = ((each.dialogue_id, each.context[-1].text, each.response.text) for each in result)
        return {(id, other, one) if reverse else (id, one, other) for id, one, other in texts}

    assert pairs(reverse=True) == pairs(reverse=False)


def test_merge_turns_joins_consecutive_turns() -> None:
    turns = (
        Turn("A", "the red hat"),
        Turn("B", " I see. "),
        Turn("B", "Which?"),
        Turn("A", "red", (Copy(0, 3, 0, 4),)),
    )
    counts: Counter[str] = Counter()
    reply, answer = examples(
        [Dialogue("d", turns)], ExampleRules(3, first_turns=False, merge_turns=True), counts
    )
    assert reply.response == Turn("B", "I see. Which?")
    assert [turn.text for turn in answer.context] == ["the red hat", "I see. Which?"]
    assert answer.response.copies == (Copy(0, 3, 0, 4),)
    assert counts["dropped turns: merged"] == 1


def test_facts_go_to_the_speakers_who_know_them() -> None:
    facts = (Turn("A", "I am a cook."), Turn("", "It rains."), Turn("B", "I ski."))
    turns = (Turn("A", "Hi"), Turn("B", "Hello"), Turn("A", "Well"))
    of_b, of_a = examples(
        [Dialogue("d", turns, facts=facts)], ExampleRules(1, first_turns=False), Counter()
    )
    assert [fact.text for fact in of_b.facts] == ["It rains.", "I ski."]
    assert [fact.text for fact in of_a.facts] == ["I am a cook.", "It rains."]
    assert [turn.text for turn in of_a.context] == ["Hello"]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"context_turns": -1}, r"data\.context_turns is -1"),
        ({"max_turn_characters": 0}, r"data\.max_turn_characters is 0"),
        ({"malformed": "ignore"}, r"data\.malformed is 'ignore'; give refuse or drop"),
    ],
)
def test_rules_out_of_range_are_errors_with_their_key(
    changed: dict[str, object], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        replace(ExampleRules(2, first_turns=False), **changed)


@pytest.mark.parametrize("empty", ["", "  "])
def test_copies_follow_the_remaining_turns(empty: str) -> None:
    turns = (
        Turn("A", empty),
        Turn("B", "the red hat"),
        Turn("A", empty),
        Turn("B", "a red hat", (Copy(2, 5, 1, 4), Copy(1, 2, 2, 0))),
    )
    (example,) = examples([Dialogue("d", turns)], ExampleRules(3, first_turns=False), Counter())
    assert example.response.copies == (Copy(2, 5, 0, 4),)
    (copy,) = example.response.copies
    source = example.context[copy.turn - example.first].text
    assert (
        source[copy.source : copy.source + 3]
        == example.response.text[copy.start : copy.end]
        == "red"
    )


@pytest.mark.parametrize("normalise", [True, False])
def test_normalise_removes_outer_white_space(normalise: bool) -> None:
    turns = Turn("A", " \n the red hat "), Turn("B", "\tred", (Copy(1, 4, 0, 7),))
    rules = ExampleRules(3, first_turns=False, normalise=normalise)
    (example,) = examples([Dialogue("d", turns, facts=(Turn("", " a fact\n"),))], rules, Counter())
    texts = [turn.text for turn in (*example.facts, *example.context, example.response)]
    assert texts == (
        ["a fact", "the red hat", "red"]
        if normalise
        else [" a fact\n", " \n the red hat ", "\tred"]
    )
    (copy,) = example.response.copies
    source = example.context[copy.turn].text
    assert source[copy.source :][:3] == example.response.text[copy.start : copy.end] == "red"


def test_shared_facts_keep_their_order() -> None:
    facts = tuple(Turn(speaker, f"of {speaker}") for speaker in ("A", "", "B", "A"))
    dialogue = Dialogue("d", (Turn("A", "a"), Turn("B", "b"), Turn("A", "c")), facts=facts)
    result = list(examples([dialogue], ExampleRules(1, first_turns=False), Counter()))
    assert [[fact.speaker for fact in example.facts] for example in result] == [
        ["", "B"],
        ["A", "", "A"],
    ]
    assert all(len(example.context) == 1 for example in result)
