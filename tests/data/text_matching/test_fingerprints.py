"""What counts as the same text, and that numbers say what texts would."""

from __future__ import annotations

import re
from itertools import count

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dialog.data.dialogue import Dialogue, Turn
from dialog.data.text_matching.fingerprints import (
    NORMALISATIONS,
    Said,
    among,
    hashes,
    letters,
    repeats,
    verbatim,
    words,
)

said = st.sampled_from(["", "a", "b", "A !", "a b", "b a"])
dialogues = st.builds(
    lambda turns, facts: (tuple(Turn("A", text) for text in turns), tuple(Turn("", text) for text in facts)),
    st.lists(said, max_size=5),
    st.lists(said, max_size=2),
)
corpora = st.lists(dialogues, max_size=8).map(
    lambda all_turns: [
        Dialogue(f"d{number}", turns, facts=facts) for number, (turns, facts) in zip(count(), all_turns, strict=False)
    ]
)


@given(st.text(st.characters(max_codepoint=127)))
def test_the_words_of_ascii_are_letters_and_digits_between_spaces(text: str) -> None:
    assert words(text) == re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


@example("\u0339:\u0334")
@given(st.text())
def test_normalising_again_changes_nothing(text: str) -> None:
    for normalise in NORMALISATIONS.values():
        assert normalise(normalise(text)) == normalise(text)
    assert words(verbatim(text)) == words(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Café, s'il vous plaît !", "café s il vous plaît"),
        ("Cafe\u0301", "café"),
        ("你好，世界！OK", "你 好 世 界 ok"),
        ("कीमत क्या है?", "कीमत क्या है"),
        ("Привет — мир…", "привет мир"),
        ("12:30", "12 30"),
        ("… !", ""),
    ],
)
def test_words_of_other_scripts(text: str, expected: str) -> None:
    assert words(text) == expected
    assert letters(text) == expected.replace(" ", "")


def test_white_space_alone_is_not_compared_verbatim() -> None:
    assert verbatim(" A\u00a0 b\n") == "A b" != verbatim("a b")


@given(corpora)
def test_histories_are_one_exactly_where_all_that_was_said_is(corpus: list[Dialogue]) -> None:
    numbers, texts = Said(verbatim), []
    for dialogue in corpus:
        numbers.add(dialogue)
        facts = [(fact.speaker, verbatim(fact.text)) for fact in dialogue.facts]
        turns = [verbatim(turn.text) for turn in dialogue.turns]
        texts += [(facts, turns[: end + 1]) for end in range(len(turns))]
    found = numbers.histories()
    assert len(found) == len(texts) == len(numbers.turns)
    for one in range(len(texts)):
        for other in range(one):
            assert (found[one] == found[other]) == (texts[one] == texts[other])


@given(corpora)
def test_answers_are_all_turns_but_the_first(corpus: list[Dialogue]) -> None:
    numbers = Said(verbatim)
    first = []
    for dialogue in corpus:
        numbers.add(dialogue)
        first += [index == 0 for index in range(len(dialogue.turns))]
    assert numbers.answers.tolist() == [place for place, is_first in enumerate(first) if not is_first]
    assert np.diff(numbers.offsets).tolist() == [len(dialogue.turns) for dialogue in corpus]


@given(st.lists(said), st.lists(said))
def test_among_and_repeats(found: list[str], known: list[str]) -> None:
    assert among(hashes(found), np.unique(hashes(known))).tolist() == [text in known for text in found]
    assert repeats(hashes(found)).tolist() == [text in found[:place] for place, text in enumerate(found)]
