"""Normalisations, and hashes that are equal exactly if the texts are."""

from __future__ import annotations

import re
from itertools import count, pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dialog.data.dialogue import Dialogue, Turn
from dialog.data.text_matching.fingerprints import (
    NORMALISATIONS,
    collapse_whitespace,
    contained_in,
    hash_texts,
    letters_and_digits,
    normalise_words,
    repeats_earlier,
)
from dialog.data.text_matching.spilled import SpilledHashes

utterances = st.sampled_from(["", "a", "b", "A !", "a b", "b a"])
dialogues = st.builds(
    lambda turns, facts: (
        tuple(Turn("A", text) for text in turns),
        tuple(Turn("", text) for text in facts),
    ),
    st.lists(utterances, max_size=5),
    st.lists(utterances, max_size=2),
)
corpora = st.lists(dialogues, max_size=8).map(
    lambda all_turns: [
        Dialogue(f"d{number}", turns, facts=facts)
        for number, (turns, facts) in zip(count(), all_turns, strict=False)
    ]
)


@given(st.text(st.characters(max_codepoint=127)))
def test_ascii_words_are_runs_of_letters_and_digits(text: str) -> None:
    assert normalise_words(text) == re.sub(r"[^a-z0-9]+", " ", text.lower()).strip()


@example("\u0339:\u0334")
@given(st.text())
def test_normalisations_are_idempotent(text: str) -> None:
    for normalise in NORMALISATIONS.values():
        assert normalise(normalise(text)) == normalise(text)
    assert normalise_words(collapse_whitespace(text)) == normalise_words(text)


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
def test_words_in_other_scripts(text: str, expected: str) -> None:
    assert normalise_words(text) == expected
    assert letters_and_digits(text) == expected.replace(" ", "")


def test_verbatim_ignores_white_space_only() -> None:
    assert collapse_whitespace(" A\u00a0 b\n") == "A b" != collapse_whitespace("a b")


@given(corpora)
def test_context_hashes_are_equal_iff_facts_and_turns_are(corpus: list[Dialogue]) -> None:
    hashes, contexts = SpilledHashes(collapse_whitespace), []
    for dialogue in corpus:
        hashes.add(dialogue)
        facts = [(fact.speaker, collapse_whitespace(fact.text)) for fact in dialogue.facts]
        turns = [collapse_whitespace(turn.text) for turn in dialogue.turns]
        contexts += [(facts, turns[: end + 1]) for end in range(len(turns))]
    context_hashes = [hash for chunk in hashes.chunks() for hash in chunk.contexts().tolist()]
    assert len(context_hashes) == len(contexts) == hashes.turns
    for one in range(len(contexts)):
        for other in range(one):
            assert (context_hashes[one] == context_hashes[other]) == (
                contexts[one] == contexts[other]
            )


@given(corpora)
def test_replies_are_all_turns_but_the_first(corpus: list[Dialogue]) -> None:
    hashes = SpilledHashes(collapse_whitespace)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dialog.data.text_matching.spilled.CHUNK", 3)
        for dialogue in corpus:
            hashes.add(dialogue, np.ones(len(dialogue.turns), dtype=bool))
    expected = iter(corpus)
    for chunk in hashes.chunks():
        for start, end in pairwise(chunk.offsets.tolist()):
            turns = next(expected).turns
            texts = [collapse_whitespace(turn.text) for turn in turns]
            assert chunk.turns[start:end].tolist() == hash_texts(texts).tolist()
            replies = [place for place in chunk.replies.tolist() if start <= place < end]
            assert replies == list(range(start + 1, end))
        assert chunk.responses.all()
    assert next(expected, None) is None


@given(st.lists(utterances), st.lists(utterances))
def test_contained_in_and_repeats_earlier(texts: list[str], others: list[str]) -> None:
    assert contained_in(hash_texts(texts), np.unique(hash_texts(others))).tolist() == [
        text in others for text in texts
    ]
    assert repeats_earlier(hash_texts(texts)).tolist() == [
        text in texts[:at] for at, text in enumerate(texts)
    ]
