"""Words in text, however it is split into tokens: case, boundaries, invalid bytes, other scripts,
long lists.
"""

from __future__ import annotations

import re
import unicodedata
from itertools import pairwise
from typing import Any, cast

import numpy as np
import pytest
import torch
from chains import Chain
from hypothesis import given
from hypothesis import strategies as st

from dialog.config.schema import GenerationConfig
from dialog.data.tokenizers import TOKENIZERS
from dialog.data.tokenizers.tokenizer import EOS
from dialog.generation import responder as responder_module
from dialog.generation.banned_words import BannedWords
from dialog.generation.build import build_search
from dialog.generation.required_words import token_tables
from dialog.generation.responder import Responder
from dialog.generation.searches.sampling import Sampling
from dialog.generation.words.automaton import WordAutomaton
from dialog.generation.words.patterns import occurs

PIECES = [b"", b"", b" ca", b"t", b"s", b" dog", b" the", b"!", b" Cat"]
BEFORE, AFTER = "(?i)(?<![daéЯßs])", "(?![daéЯßs])"
PATTERNS = {
    "da": f"{BEFORE}da{AFTER}",
    "d'a": f"{BEFORE}d[^daéЯßs]a{AFTER}",
    "éa": f"{BEFORE}éa{AFTER}",
    "Я": f"{BEFORE}я{AFTER}",
    "ass": f"{BEFORE}a(ss|ß|ẞ){AFTER}",
    "a我": "(?i)a我",
}
"""Words and regular expressions that find them in text of a few characters."""
CHARACTERS = [
    "da",
    "DA",
    "a",
    "d",
    "'",
    " ",
    "’",
    "…",
    "é",
    "É",
    "я",
    "Я",
    "ß",
    "ẞ",
    "ss",
    "我",
    "は",
    "😀",
    "«",
    "！",
]


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
    assert completed(["cat"], tokens, PIECES) == ({0} if completes else set())


def completed(
    words: list[str], tokens: list[int], pieces: list[bytes], *, ends: bool = False
) -> set[int]:
    """Return the words that tokens complete, and the end of the text if it `ends` behind them."""
    automaton = WordAutomaton.build(words, separate=True)
    after, occurring = token_tables(automaton, pieces)
    state, seen = automaton.start, 0
    for token in tokens:
        seen |= int(occurring[state, token])
        state = after[state, token]
    seen |= int(automaton.at_end[state]) if ends else 0
    return {number for number in range(len(words)) if seen >> number & 1}


def split(encoded: bytes, cuts: set[int]) -> list[bytes]:
    ends = sorted({cut for cut in cuts if cut < len(encoded)} | {0, len(encoded)})
    return [encoded[start:end] for start, end in pairwise(ends)]


@given(
    text=st.lists(st.sampled_from(CHARACTERS), max_size=6).map("".join),
    cuts=st.sets(st.integers(1, 24)),
)
def test_words_are_found_beside_punctuation_in_any_pieces(text: str, cuts: set[int]) -> None:
    words = list(PATTERNS)
    pieces = split(text.encode(), cuts)
    seen = completed(words, list(range(len(pieces))), pieces, ends=True)
    assert {words[number] for number in seen} == {
        word for word in words if re.search(PATTERNS[word], text)
    }
    assert {word for word in words if occurs(word, text)} == {words[number] for number in seen}


INCOMPLETE = [
    "é".encode()[:1],
    "ẞ".encode()[:2],
    "我".encode()[:1],
    "我".encode()[1:],
    "😀".encode()[:3],
    b"\xff",
    b"\x80",
]


@given(
    parts=st.lists(
        st.sampled_from([*INCOMPLETE, *(character.encode() for character in CHARACTERS)]),
        max_size=7,
    ),
    cuts=st.sets(st.integers(1, 24)),
)
def test_bytes_that_are_no_text_are_boundaries(parts: list[bytes], cuts: set[int]) -> None:
    """Decoding replaces them by U+FFFD; the words that occur are those of the decoded text."""
    words = [*PATTERNS, "éd", "😀a"]
    encoded = b"".join(parts)
    pieces = split(encoded, cuts)
    seen = completed(words, list(range(len(pieces))), pieces, ends=True)
    text = encoded.decode(errors="replace")
    assert {words[number] for number in seen} == {word for word in words if occurs(word, text)}


@pytest.mark.parametrize("end", [b"\xc3", b"\xff", b"\xe2\x80", b"\x80"])
def test_a_banned_word_does_not_occur_before_invalid_bytes(end: bytes) -> None:
    pieces = [b" band", end, "é".encode()[1:], b"x"]
    banned = BannedWords.build(["band"], pieces)
    state = banned.after(torch.tensor([banned.start]), torch.tensor([0]))
    may_become_a_letter = end == b"\xc3"
    assert banned.completing(state).tolist() == [[True, not may_become_a_letter, True, False]]
    if may_become_a_letter:
        state = banned.after(state, torch.tensor([1]))
        assert banned.at_end[state].item()
        assert banned.completing(state).tolist() == [[True, True, False, True]]


@given(
    words=st.lists(
        st.sampled_from([*PATTERNS, "d a d", "da da", "a", "我a我", "我", "😀a"]),
        min_size=1,
        unique=True,
    ),
    parts=st.lists(
        st.lists(
            st.sampled_from([*INCOMPLETE, *(character.encode() for character in CHARACTERS)]),
            max_size=3,
        ),
        min_size=1,
        max_size=12,
    ),
)
def test_compact_tables_are_those_of_the_automaton(
    words: list[str], parts: list[list[bytes]]
) -> None:
    """In every state and for every token, also at the end of the text."""
    pieces = list(map(b"".join, parts))
    automaton = WordAutomaton.build(words, separate=False)
    after, completes = token_tables(automaton, pieces)
    at_end, marked = automaton.at_end > 0, completes > 0
    has_text = np.array(list(map(bool, pieces)))
    while True:
        dead = at_end & marked[:, has_text].all(1)
        if np.array_equal(marked, marked | dead[after]):
            break
        marked |= dead[after]
    banned = BannedWords.build(words, pieces)
    states = torch.arange(len(after))
    assert np.array_equal(banned.completing(states).numpy(), marked)
    assert np.array_equal(banned.completing_at_end(states).numpy(), marked | at_end[after])
    for token in range(len(pieces)):
        assert np.array_equal(
            banned.after(states, torch.full_like(states, token)).numpy(), after[:, token]
        )


@given(
    pieces=st.lists(
        st.sampled_from([*PIECES[2:], b"Cat", b"\n", " é".encode()]), min_size=1, unique=True
    ),
    words=st.lists(
        st.sampled_from(["cat", "cats", "the dog", "dog", "Cat dog the", "é"]),
        min_size=1,
        unique=True,
    ),
)
def test_a_text_without_the_words_can_always_end_or_go_on(
    pieces: list[bytes], words: list[str]
) -> None:
    banned = BannedWords.build(words, pieces)
    states, number = [banned.start], 0
    while number < len(states):
        state, number = torch.tensor([states[number]]), number + 1
        allowed = (~banned.completing(state)[0]).nonzero().flatten()
        assert int(state) == banned.start or len(allowed) or not banned.at_end[state]
        states += set(banned.after(state.expand(len(allowed)), allowed).tolist()) - set(states)


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
        search = build_search(
            {"name": "greedy", **limits}, GenerationConfig(max_length=30), tokenizer
        )
        (reply,) = chain.search(search)
        texts.append(tokenizer.decode(reply[0].tokens))
    assert name != "word" or any(occurs(word, texts[0]) for word in banned), texts[0]
    assert not any(occurs(word, texts[1]) for word in banned), texts[1]
    assert len(reply[0].tokens) == 30


def test_a_long_list_of_banned_words_needs_little_memory() -> None:
    words = [f"word{number}{'abcdefgh'[number % 8]}" for number in range(1000)]
    pieces = [
        b" " * (number % 2) + bytes([97 + number % 26, 97 + number // 26 % 26])
        for number in range(5000)
    ]
    banned = BannedWords.build(words, pieces)
    tensors = [
        *vars(banned).values(),
        *vars(banned.completing).values(),
        *vars(banned.completing_at_end).values(),
    ]
    assert sum(tensor.nbytes for tensor in tensors if isinstance(tensor, torch.Tensor)) < 2**20


def test_searches_share_the_tables_of_banned_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responder_module, "MOST_LISTS", 2)
    tokenizer = TOKENIZERS["characters"](["Hello you ."] * 9)
    responder = Responder(cast("Any", torch.nn.Linear(1, 1)), tokenizer, 9, GenerationConfig())

    def tables(words: list[str], temperature: float) -> BannedWords:
        search = responder.search({"name": "sampling", "temperature": temperature, "banned": words})
        return cast("BannedWords", cast("Sampling", search).constraints.banned)

    assert len({id(tables(["you", "hello"], 0.1 * step).keys) for step in range(1, 9)}) == 1
    before = tables(["you", "hello"], 1.0).keys
    assert tables(["hello", "you"], 2.0).keys is before
    for word in ("a", "b"):
        tables([word], 1.0)
    assert tables(["you", "hello"], 1.0).keys is not before
    assert len(responder._banned) == 2


@pytest.mark.parametrize("word", ["école", "ÉCOLE", "Тест", "тест", "ΣΊΣΥΦΟΣ", "straße"])
def test_case_is_ignored_in_all_scripts(word: str) -> None:
    for spelling in (word, word.lower(), word.upper(), word.title()):
        assert occurs(word, f"({spelling})")
        assert completed([word], [0, 1], [f" {spelling}".encode(), b"."]) == {0}
    assert not occurs(word, f"{word}{word}")


def test_scripts_without_spaces_need_no_boundary() -> None:
    pieces = [
        b"",
        b"",
        *(char.encode() for char in "我们喜欢"),
        "喜".encode()[:2],
        "喜".encode()[2:],
    ]
    assert completed(["喜欢"], [2, 3, 6, 7], pieces) == set()
    assert completed(["喜欢"], [2, 3, 6, 7, 5], pieces) == {0}


def test_thai_words_count_within_a_sentence() -> None:
    assert occurs("รัก", "ฉันรักคุณ")


def test_words_without_letters_are_rejected() -> None:
    with pytest.raises(ValueError, match="no letter"):
        BannedWords.build(["?!"], PIECES)
