"""Which turns become examples, and that what is dropped adds up."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.dialogue import Copy, Dialogue, Turn
from dialog.data.examples import examples

texts = st.sampled_from(["", " ", "\u00a0\u3000\t", "hi", "how are you ?", " fine "])
dialogue_turns = st.lists(st.builds(Turn, st.sampled_from("AB"), texts), max_size=6).map(tuple)
corpora = st.lists(dialogue_turns, max_size=6).map(
    lambda all_turns: [Dialogue(f"d{number}", turns) for number, turns in zip(count(), all_turns, strict=False)]
)


def dialogue(*texts: str) -> Dialogue:
    return Dialogue("d", tuple(Turn("AB"[index % 2], text) for index, text in enumerate(texts)))


def test_a_context_is_the_turns_just_before() -> None:
    found = list(examples([dialogue("a", "b", "c", "d")], context_turns=2, first_turns=False, counts=Counter()))
    assert [(e.id, e.first, "".join(t.text for t in e.context), e.response.text) for e in found] == [
        ("d#1", 0, "a", "b"),
        ("d#2", 0, "ab", "c"),
        ("d#3", 1, "bc", "d"),
    ]


def test_first_turns_answer_nothing() -> None:
    first, *rest = examples([dialogue("a", "b")], context_turns=2, first_turns=True, counts=Counter())
    assert (first.id, first.context, first.first, first.response.text) == ("d#0", (), 0, "a")
    assert [e.id for e in rest] == ["d#1"]


@given(corpora, st.integers(0, 4), st.booleans())
def test_counts_add_up(dialogues: list[Dialogue], context_turns: int, first_turns: bool) -> None:
    counts: Counter[str] = Counter()
    found = list(examples(dialogues, context_turns=context_turns, first_turns=first_turns, counts=counts))
    single = counts["dropped: single turn"]
    assert counts["dialogues"] + counts["dropped: empty dialogue"] + single == len(dialogues)
    assert counts["turns"] + counts["dropped: empty turn"] + single == sum(len(d.turns) for d in dialogues)
    assert counts["examples"] == len(found) == counts["turns"] - (0 if first_turns else counts["dialogues"])
    assert len({example.id for example in found}) == len(found)
    assert all(turn.text.strip() for example in found for turn in (*example.context, example.response))
    assert all(len(example.context) <= context_turns for example in found)


@pytest.mark.parametrize("gone", ["", "  "])
def test_copies_follow_the_turns_that_stay(gone: str) -> None:
    turns = (
        Turn("A", gone),
        Turn("B", "the red hat"),
        Turn("A", gone),
        Turn("B", "a red hat", (Copy(2, 5, 1, 4), Copy(1, 2, 2, 0))),
    )
    (example,) = examples([Dialogue("d", turns)], context_turns=3, first_turns=False, counts=Counter())
    assert example.response.copies == (Copy(2, 5, 0, 4),)
    (copy,) = example.response.copies
    source = example.context[copy.turn - example.first].text
    assert source[copy.source : copy.source + 3] == example.response.text[copy.start : copy.end] == "red"


def test_a_responder_knows_his_own_facts_and_everybodys() -> None:
    facts = tuple(Turn(speaker, f"of {speaker}") for speaker in ("A", "", "B", "A"))
    said = Dialogue("d", (Turn("A", "a"), Turn("B", "b"), Turn("A", "c")), facts=facts)
    found = list(examples([said], context_turns=1, first_turns=False, counts=Counter()))
    assert [[fact.speaker for fact in example.facts] for example in found] == [["", "B"], ["A", "", "A"]]
    assert all(len(example.context) == 1 for example in found)
