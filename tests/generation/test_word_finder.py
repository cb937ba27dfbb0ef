"""Words in text, however it is split into tokens: boundaries, scripts without spaces, long lists."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.generation.word_finder import WordFinder, occurs

PIECES = [b"", b"", b" ca", b"t", b"s", b" dog", b" the", b"!", b" Cat"]
BEFORE, AFTER = "(?i)(?<![daéя])", "(?![daéя])"
PATTERNS = {
    "da": f"{BEFORE}da{AFTER}",
    "d'a": f"{BEFORE}d[^daéя]a{AFTER}",
    "éa": f"{BEFORE}éa{AFTER}",
    "a我": "(?i)a我",
}
"""Words and regular expressions that find them in text of a few characters."""


@pytest.mark.parametrize(
    ("tokens", "completes"),
    [
        ([2, 3, 7], True),  # " cat!"
        ([2, 3, 4, 7], False),  # " cats!"
        ([8, 6], True),  # " Cat the"
        ([5, 2, 3], False),  # no boundary yet
        ([3, 2, 3, 5], True),  # "t cat dog"
    ],
)
def test_a_word_is_found_between_boundaries(tokens: list[int], completes: bool) -> None:
    finder = WordFinder.build(["cat"], PIECES)
    state, seen = finder.start, False
    for token in tokens:
        seen |= bool(finder.completes[state, token, 0])
        state = int(finder.after[state, token])
    assert seen is completes


@given(
    text=st.lists(
        st.sampled_from(["da", "DA", "a", "d", "'", " ", "’", "“", "…", "é", "я", "我", "は", "😀", "«", "！"]),
        max_size=6,
    ).map("".join),
    cuts=st.sets(st.integers(1, 24)),
)
def test_words_are_found_beside_punctuation_in_any_pieces(text: str, cuts: set[int]) -> None:
    words = list(PATTERNS)
    encoded = text.encode()
    ends = sorted({cut for cut in cuts if cut < len(encoded)} | {0, len(encoded)})
    pieces = [encoded[start:end] for start, end in pairwise(ends)]
    finder = WordFinder.build(words, pieces, separate=True)
    together = WordFinder.build(words, pieces)
    state, either, seen = finder.start, together.start, set()
    for token in range(len(pieces)):
        complete = finder.completes[state, token]
        assert together.completes[either, token].tolist() == [bool(complete.any())]
        seen |= set(complete.nonzero().flatten().tolist())
        state, either = int(finder.after[state, token]), int(together.after[either, token])
    seen |= set(finder.completes_at_end[state].nonzero().flatten().tolist())
    assert {words[number] for number in seen} == {word for word in words if re.search(PATTERNS[word], text)}
    assert {word for word in words if occurs(word, text)} == {words[number] for number in seen}


def test_a_long_list_of_banned_words_needs_little_memory() -> None:
    names = [f"word{number}{'abcdefgh'[number % 8]}" for number in range(400)]
    finder = WordFinder.build(names, [bytes([byte]) for byte in range(97, 123)] * 40)
    states = sum(len(name) + 1 for name in names)
    assert finder.after.shape[0] <= states
    assert finder.completes.numel() == finder.after.numel()


def test_scripts_without_spaces_need_no_boundary() -> None:
    pieces = [b"", b"", *(char.encode() for char in "我们喜欢"), "喜".encode()[:2], "喜".encode()[2:]]
    finder = WordFinder.build(["喜欢"], pieces)
    state = finder.start
    for token in (2, 3, 6, 7):
        assert not finder.completes[state, token].any()
        state = int(finder.after[state, token])
    assert finder.completes[state, 5, 0]


def test_thai_words_count_within_a_sentence() -> None:
    assert occurs("รัก", "ฉันรักคุณ")


def test_words_without_letters_are_rejected() -> None:
    with pytest.raises(ValueError, match="no letter"):
        WordFinder.build(["?!"], PIECES)
