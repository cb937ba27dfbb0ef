"""The rule of the leak, held against one that is written with sets of texts."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.dialogue import Dialogue, Turn
from dialog.data.text_matching.leaks import all_long_pairs, clean_and_leaked, leaks

LONG = ["I will take the red one .", "i will take the red one", "See you in the park , then !", "Where is it , sir ?"]
SHORT = ["Thank you .", "Of course not .", "thank you", "...", "No ."]
utterances = st.sampled_from(LONG + SHORT)
dialogues = st.lists(st.lists(utterances, min_size=1, max_size=4), max_size=5).map(
    lambda corpus: [dialogue(f"d{number}", *turns) for number, turns in enumerate(corpus)]
)


def dialogue(id: str, *texts: str) -> Dialogue:
    return Dialogue(id, tuple(Turn("AB"[index % 2], text) for index, text in enumerate(texts)))


def pairs(found: Dialogue, minimum: int) -> set[tuple[str, str]]:
    said = [re.sub("[^a-z0-9]+", " ", turn.text.lower()).strip() for turn in found.turns]
    return {(one, other) for one, other in pairwise(said) if len(other.split()) >= minimum}


@given(dialogues, dialogues, st.integers(1, 7))
def test_a_dialogue_leaks_if_it_shares_a_long_pair(
    training: list[Dialogue], evaluated: list[Dialogue], minimum: int
) -> None:
    asked = {pair for each in evaluated for pair in pairs(each, minimum)}
    known = all_long_pairs(evaluated, minimum)
    assert [leaks(each, known, minimum) for each in training] == [
        bool(pairs(each, minimum) & asked) for each in training
    ]
    learnt = {pair for each in training for pair in pairs(each, minimum)}
    split = clean_and_leaked(iter(training), iter(evaluated), minimum)
    assert split.leaked == [each.id for each in evaluated if pairs(each, minimum) & learnt]
    assert split.clean == [each.id for each in evaluated if not pairs(each, minimum) & learnt]


def test_who_answers_what_matters_and_formulas_do_not() -> None:
    known = all_long_pairs([dialogue("d", "Hello .", "Where is it , sir ?", "Thank you .")])
    assert len(known) == 1
    assert leaks(dialogue("e", "well", "HELLO", "where is it -- Sir"), known)
    assert not leaks(dialogue("e", "Where is it , sir ?", "Hello ."), known)
    assert not leaks(dialogue("e", "Hello .", "Yes .", "Where is it , sir ?"), known)
    assert not leaks(dialogue("e", "Where is it , sir ?", "Thank you ."), known)
    assert not leaks(dialogue("e"), known)
    assert not leaks(dialogue("e", "Hello", "Where is it , sir ?"), np.empty(0, np.uint64))


def test_chinese_has_words_too() -> None:
    known = all_long_pairs([dialogue("d", "你好。", "你想去哪里？")])
    assert leaks(dialogue("e", "你好", "你想去哪里"), known)
    assert not leaks(dialogue("e", "你好", "你想去哪"), known)
