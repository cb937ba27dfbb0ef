"""Words in text, however it is split into tokens: boundaries, scripts without spaces, long lists."""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise

import pytest
import torch
from chains import Chain
from hypothesis import given
from hypothesis import strategies as st

from dialog.config.schema import GenerationConfig
from dialog.data.tokenizers import TOKENIZERS
from dialog.data.tokenizers.tokenizer import EOS
from dialog.generation.build import build_search
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
    finder = WordFinder.build(words, [*pieces, b"z"], separate=True)
    together = WordFinder.build(words, [*pieces, b"z"])  # with a letter, any text can go on
    state, either, seen = finder.start, together.start, set()
    for token in range(len(pieces)):
        complete = finder.completes[state, token]
        assert together.completes[either, token].tolist() == [bool(complete.any())]
        seen |= set(complete.nonzero().flatten().tolist())
        state, either = int(finder.after[state, token]), int(together.after[either, token])
    seen |= set(finder.completes_at_end[state].nonzero().flatten().tolist())
    assert {words[number] for number in seen} == {word for word in words if re.search(PATTERNS[word], text)}
    assert {word for word in words if occurs(word, text)} == {words[number] for number in seen}


@given(
    pieces=st.lists(st.sampled_from([*PIECES[2:], b"Cat", b"\n", " é".encode()]), min_size=1, unique=True),
    words=st.lists(st.sampled_from(["cat", "cats", "the dog", "dog", "Cat dog the", "é"]), min_size=1, unique=True),
)
def test_a_text_without_the_words_can_always_end_or_go_on(pieces: list[bytes], words: list[str]) -> None:
    finder = WordFinder.build(words, pieces)
    states, number = [finder.start], 0
    while number < len(states):
        state, number = states[number], number + 1
        allowed = (~finder.completes[state, :, 0]).nonzero().flatten()
        assert state == finder.start or len(allowed) or not finder.completes_at_end[state, 0]
        states += {int(after) for after in finder.after[state, allowed]} - set(states)


@pytest.mark.parametrize("name", ["word", "byte_bpe", "characters"])
def test_banned_words_do_not_occur_with_any_tokenizer(name: str) -> None:
    tokenizer = TOKENIZERS[name](["Hello you damn old café ."] * 9)
    likely = tokenizer.encode("damn café damn")
    size = len(tokenizer)
    chain = Chain(torch.randn(size, size, size, generator=torch.Generator().manual_seed(1)))
    chain.logits[..., likely] += 5
    chain.logits[..., EOS] -= 9
    banned = ["DAMN", unicodedata.normalize("NFD", "café")]
    texts = []
    for limits in ({}, {"banned": banned}):
        search = build_search({"name": "greedy", **limits}, GenerationConfig(max_length=30), tokenizer)
        (reply,) = chain.search(search)
        texts.append(tokenizer.decode(reply[0].tokens))
    assert name != "word" or any(occurs(word, texts[0]) for word in banned), texts[0]
    assert not any(occurs(word, texts[1]) for word in banned), texts[1]
    assert len(reply[0].tokens) == 30


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
