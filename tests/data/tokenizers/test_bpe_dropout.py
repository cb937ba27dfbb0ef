"""BPE-dropout: the text stays, the ends of the scale are known, and what lies between follows the paper."""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, trainers

from dialog.data.tokenizers import byte_bpe, file, unigram, word
from dialog.data.tokenizers.bpe_dropout import BpeDropout, apply_merges, read_merges
from dialog.data.tokenizers.tokenizer import SELF, UNK, Tokenizer
from dialog.errors import UserError

TEXTS = [
    "where is the station ? behind the market , two streets from here .",
    "書店 はどこ ですか 👋👋 Käse kostet",
] * 6
BYTES = byte_bpe(TEXTS, vocabulary=400)
MERGES, SYMBOLS = read_merges(BYTES)

parts = ["station", " behind", " the", " market", "streets", " 書店", "👋", "Käse", " ", "\n", "x", "'s"]
texts = st.lists(st.one_of(st.sampled_from(parts), st.text(max_size=3)), max_size=8).map("".join)
sayable = texts.map(lambda text: text.encode("utf-8", "ignore").decode())
shares = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])


def by_the_paper(symbols: list[int], left_out: list[int]) -> list[int]:
    """Algorithm 1 of the paper, where `left_out` says at which of the merges in order the first one is kept."""
    symbols = list(symbols)
    for number in left_out:
        pairs = enumerate(pairwise(symbols))
        possible = sorted((*MERGES[pair], place) for place, pair in pairs if pair in MERGES)
        if len(possible) <= number:
            break
        _, symbol, place = sorted((rank, symbol, place) for rank, symbol, place in possible)[number]
        symbols[place : place + 2] = [symbol]
    return symbols


@given(sayable, shares, st.integers(0, 9))
def test_the_text_stays(text: str, share: float, seed: int) -> None:
    ids = BYTES.encode(text)
    drawn = BpeDropout(BYTES, share)(ids, np.random.default_rng(seed))
    assert BYTES.decode(drawn) == BYTES.decode(ids)
    assert all(token > SELF for token in drawn)


@given(sayable)
def test_nothing_left_out_is_encode_and_all_left_out_is_bytes(text: str) -> None:
    ids, random = BYTES.encode(text), np.random.default_rng(0)
    assert BpeDropout(BYTES, 0.0)(ids, random) == ids
    assert len(BpeDropout(BYTES, 1.0)(ids, random)) == len(BYTES.decode(ids).encode())


@given(sayable)
def test_merging_in_order_gives_the_words_of_the_library(text: str) -> None:
    for each in BYTES.encode_words(text):
        symbols = [symbol for token in each for symbol in SYMBOLS.get(token, (token,))]
        assert tuple(apply_merges(symbols, MERGES, [0] * len(symbols))) == each


@given(st.lists(st.sampled_from(sorted({part for pair in MERGES for part in pair})), max_size=12), st.data())
def test_merges_are_those_of_the_paper(symbols: list[int], data: st.DataObject) -> None:
    left_out = data.draw(st.lists(st.integers(0, 3), min_size=len(symbols), max_size=len(symbols)))
    assert apply_merges(symbols, MERGES, left_out) == by_the_paper(symbols, left_out)


def test_a_merge_is_left_out_as_often_as_told() -> None:
    """Of the word `ab` alone one merge is possible, at one step."""
    pair = byte_bpe(["ab"] * 4, vocabulary=263)
    random = np.random.default_rng(0)
    kept = Counter(len(BpeDropout(pair, 0.3)(pair.encode("ab"), random)) for _ in range(2000))
    assert kept[2] / 2000 == pytest.approx(0.3, abs=0.05)


def test_the_state_decides() -> None:
    ids = BYTES.encode(TEXTS[0])
    dropout = BpeDropout(BYTES, 0.5)
    draws = [dropout(ids, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    again = pickle.loads(pickle.dumps(dropout))
    assert again(ids, np.random.default_rng(1)) == draws[0]
    assert dropout(np.array(ids, dtype=np.uint16), np.random.default_rng(1)) == draws[0]


@given(sayable, shares, st.data())
def test_turns_that_were_cut_keep_their_text(text: str, share: float, data: st.DataObject) -> None:
    ids = BpeDropout(BYTES, 0.5)(BYTES.encode(text), np.random.default_rng(0))
    cut = [*ids[: data.draw(st.integers(0, len(ids)))], SELF, UNK]
    drawn = BpeDropout(BYTES, share)(cut, np.random.default_rng(0))
    assert BYTES.decode(drawn) == BYTES.decode(cut)
    assert drawn[-2:] == [SELF, UNK]


def test_a_long_word_takes_no_square_of_its_length() -> None:
    """A step for each symbol, each of them looking at every pair, would not come to an end."""
    ids = BYTES.encode("station" * 20_000)
    assert BYTES.decode(BpeDropout(BYTES, 0.1)(ids, np.random.default_rng(0))) == "station" * 20_000


def test_word_ends_and_prefixes_of_a_given_bpe(tmp_path: Path) -> None:
    for affix in ({"end_of_word_suffix": "</w>"}, {"continuing_subword_prefix": "##"}):
        library = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", **affix))
        library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        library.decoder = decoders.BPEDecoder() if "end_of_word_suffix" in affix else decoders.WordPiece()
        trainer = trainers.BpeTrainer(special_tokens=["<unk>"], show_progress=False, **affix)
        library.train_from_iterator(TEXTS, trainer)
        library.save(str(tmp_path / "given.json"))
        tokenizer = file(path=str(tmp_path / "given.json"))
        ids = tokenizer.encode("where is the station 書店")
        drawn = BpeDropout(tokenizer, 0.5)(ids, np.random.default_rng(0))
        assert len(drawn) > len(ids)
        assert tokenizer.decode(drawn) == tokenizer.decode(ids)
        assert BpeDropout(tokenizer, 0.0)(ids, np.random.default_rng(0)) == ids


@pytest.mark.parametrize("tokenizer", [unigram(TEXTS, vocabulary=300), word(TEXTS)])
def test_other_models_are_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(UserError, match=r"data\.bpe_dropout is for BPE, and this tokenizer is (Unigram|WordLevel)"):
        BpeDropout(tokenizer, 0.1)


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_no_probability_is_refused(probability: float) -> None:
    with pytest.raises(UserError, match="from 0 to 1"):
        BpeDropout(BYTES, probability)
