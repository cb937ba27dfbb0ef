"""Leak detection, compared with the same rule on sets of texts."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.dialogue import Dialogue, Turn
from dialog.data.text_matching.leaks import (
    LeakDetector,
    has_leak,
    hash_all_long_pairs,
    hash_long_pairs,
)

LONG = [
    "I will take the red one .",
    "i will take the red one",
    "See you in the park , then !",
    "Where is it , sir ?",
]
SHORT = ["Thank you .", "Of course not .", "thank you", "...", "No ."]
utterances = st.sampled_from(LONG + SHORT)
dialogues = st.lists(st.lists(utterances, min_size=1, max_size=4), max_size=5).map(
    lambda corpus: [dialogue(f"d{number}", *turns) for number, turns in enumerate(corpus)]
)


def dialogue(id: str, *texts: str) -> Dialogue:
    return Dialogue(id, tuple(Turn("AB"[index % 2], text) for index, text in enumerate(texts)))


def long_pairs(dialogue: Dialogue, minimum: int) -> set[tuple[str, str]]:
    texts = [re.sub("[^a-z0-9]+", " ", turn.text.lower()).strip() for turn in dialogue.turns]
    return {(one, other) for one, other in pairwise(texts) if len(other.split()) >= minimum}


@given(dialogues, dialogues, st.integers(1, 7))
def test_a_dialogue_leaks_if_it_shares_a_long_pair(
    training: list[Dialogue], evaluated: list[Dialogue], minimum: int
) -> None:
    evaluated_pairs = {pair for dialogue in evaluated for pair in long_pairs(dialogue, minimum)}
    training_pairs = {pair for dialogue in training for pair in long_pairs(dialogue, minimum)}
    leaking = [bool(long_pairs(dialogue, minimum) & evaluated_pairs) for dialogue in training]
    hashes = hash_all_long_pairs(evaluated, minimum)
    assert [has_leak(dialogue, hashes, minimum) for dialogue in training] == leaking
    detector = LeakDetector(iter(evaluated), minimum)
    assert [
        detector.add_training(hash_long_pairs(dialogue, minimum)) for dialogue in training
    ] == leaking
    leaked = [
        dialogue.id for dialogue in evaluated if long_pairs(dialogue, minimum) & training_pairs
    ]
    assert detector.report().leaked == leaked
    assert detector.report().clean == [
        dialogue.id for dialogue in evaluated if dialogue.id not in leaked
    ]


def test_order_matters_and_short_responses_do_not_leak() -> None:
    pairs = hash_all_long_pairs([dialogue("d", "Hello .", "Where is it , sir ?", "Thank you .")])
    assert len(pairs) == 1
    assert has_leak(dialogue("e", "well", "HELLO", "where is it -- Sir"), pairs)
    assert not has_leak(dialogue("e", "Where is it , sir ?", "Hello ."), pairs)
    assert not has_leak(dialogue("e", "Hello .", "Yes .", "Where is it , sir ?"), pairs)
    assert not has_leak(dialogue("e", "Where is it , sir ?", "Thank you ."), pairs)
    assert not has_leak(dialogue("e"), pairs)
    assert not has_leak(dialogue("e", "Hello", "Where is it , sir ?"), np.empty(0, np.uint64))


def test_chinese_characters_count_as_words() -> None:
    pairs = hash_all_long_pairs([dialogue("d", "你好。", "你想去哪里？")])
    assert has_leak(dialogue("e", "你好", "你想去哪里"), pairs)
    assert not has_leak(dialogue("e", "你好", "你想去哪"), pairs)
