"""BPE-dropout: the text is unchanged, probabilities 0 and 1 are exact, others follow the paper's
algorithm.
"""

from __future__ import annotations

import pickle
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers, trainers

from dialog.data.tokenizers import byte_bpe, file, word
from dialog.data.tokenizers.bpe_dropout import BpeDropout, apply_merges, read_merges
from dialog.data.tokenizers.tokenizer import SELF, UNK
from dialog.errors import UserError

TEXTS = [
    "where is the station ? behind the market , two streets from here .",
    "書店 はどこ ですか 👋👋 Käse kostet",
] * 6
BYTES = byte_bpe(TEXTS, vocabulary=400)
MERGES, SYMBOLS = read_merges(BYTES)

parts = [
    "station",
    " behind",
    " the",
    " market",
    "streets",
    " 書店",
    "👋",
    "Käse",
    " ",
    "\n",
    "x",
    "'s",
]
texts = st.lists(st.one_of(st.sampled_from(parts), st.text(max_size=3)), max_size=8).map("".join)
valid_texts = texts.map(lambda text: text.encode("utf-8", "ignore").decode())
probabilities = st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0])


def reference_merges(symbols: list[int], dropped: list[int]) -> list[int]:
    """Algorithm 1 of the paper, given per step the number of possible merges dropped before one is
    applied.
    """
    symbols = list(symbols)
    for number in dropped:
        pairs = enumerate(pairwise(symbols))
        possible = sorted((*MERGES[pair], place) for place, pair in pairs if pair in MERGES)
        if len(possible) <= number:
            break
        _, symbol, place = sorted((rank, symbol, place) for rank, symbol, place in possible)[number]
        symbols[place : place + 2] = [symbol]
    return symbols


@settings(max_examples=50)
@given(valid_texts, probabilities, st.integers(0, 9))
def test_the_text_is_unchanged(text: str, probability: float, seed: int) -> None:
    ids = BYTES.encode(text)
    drawn = BpeDropout(BYTES, probability)(ids, np.random.default_rng(seed))
    assert BYTES.decode(drawn) == BYTES.decode(ids)
    assert all(token > SELF for token in drawn)


@given(valid_texts)
def test_probability_0_is_encode_and_1_is_bytes(text: str) -> None:
    ids, random = BYTES.encode(text), np.random.default_rng(0)
    assert BpeDropout(BYTES, 0.0)(ids, random) == ids
    assert len(BpeDropout(BYTES, 1.0)(ids, random)) == len(BYTES.decode(ids).encode())


@given(valid_texts)
def test_merging_in_order_equals_the_library(text: str) -> None:
    for word_ids in BYTES.encode_words(text):
        symbols = [symbol for token in word_ids for symbol in SYMBOLS.get(token, (token,))]
        assert tuple(apply_merges(symbols, MERGES, [0] * len(symbols))) == word_ids


@given(
    st.lists(st.sampled_from(sorted({part for pair in MERGES for part in pair})), max_size=12),
    st.data(),
)
def test_merges_equal_those_of_the_paper(symbols: list[int], data: st.DataObject) -> None:
    dropped = data.draw(st.lists(st.integers(0, 3), min_size=len(symbols), max_size=len(symbols)))
    assert apply_merges(symbols, MERGES, dropped) == reference_merges(symbols, dropped)


def test_a_merge_is_dropped_with_the_probability() -> None:
    """The word `ab` has one possible merge, at one step."""
    pair = byte_bpe(["ab"] * 4, vocabulary=263)
    dropout, random = BpeDropout(pair, 0.3), np.random.default_rng(0)
    lengths = Counter(len(dropout(pair.encode("ab"), random)) for _ in range(2000))
    assert lengths[2] / 2000 == pytest.approx(0.3, abs=0.05)


def test_the_random_state_determines_the_draw() -> None:
    ids = BYTES.encode(TEXTS[0])
    dropout = BpeDropout(BYTES, 0.5)
    draws = [dropout(ids, np.random.default_rng(seed)) for seed in (1, 1, 2)]
    assert draws[0] == draws[1] != draws[2]
    again = pickle.loads(pickle.dumps(dropout))
    assert again(ids, np.random.default_rng(1)) == draws[0]
    assert dropout(np.array(ids, dtype=np.uint16), np.random.default_rng(1)) == draws[0]


@settings(max_examples=50)
@given(valid_texts, probabilities, st.data())
def test_truncated_turns_keep_their_text(
    text: str, probability: float, data: st.DataObject
) -> None:
    ids = BpeDropout(BYTES, 0.5)(BYTES.encode(text), np.random.default_rng(0))
    truncated = [*ids[: data.draw(st.integers(0, len(ids)))], SELF, UNK]
    drawn = BpeDropout(BYTES, probability)(truncated, np.random.default_rng(0))
    assert BYTES.decode(drawn) == BYTES.decode(truncated)
    assert drawn[-2:] == [SELF, UNK]


def test_a_long_word_does_not_take_quadratic_time() -> None:
    ids = BYTES.encode("station" * 20_000)
    assert BYTES.decode(BpeDropout(BYTES, 0.1)(ids, np.random.default_rng(0))) == "station" * 20_000


def test_suffixes_and_prefixes_of_a_tokenizer_file(tmp_path: Path) -> None:
    for affix in ({"end_of_word_suffix": "</w>"}, {"continuing_subword_prefix": "##"}):
        library = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", **affix))
        library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        library.decoder = (
            decoders.BPEDecoder() if "end_of_word_suffix" in affix else decoders.WordPiece()
        )
        trainer = trainers.BpeTrainer(special_tokens=["<unk>"], show_progress=False, **affix)
        library.train_from_iterator(TEXTS, trainer)
        library.save(str(tmp_path / "user.json"))
        tokenizer = file(path=str(tmp_path / "user.json"))
        ids = tokenizer.encode("where is the station 書店")
        drawn = BpeDropout(tokenizer, 0.5)(ids, np.random.default_rng(0))
        assert len(drawn) > len(ids)
        assert tokenizer.decode(drawn) == tokenizer.decode(ids)
        assert BpeDropout(tokenizer, 0.0)(ids, np.random.default_rng(0)) == ids


def test_other_models_are_an_error() -> None:
    with pytest.raises(
        UserError, match=r"data\.bpe_dropout is for BPE, and this tokenizer is WordLevel"
    ):
        BpeDropout(word(TEXTS), 0.1)


@pytest.mark.parametrize("probability", [-0.1, 1.1, float("nan")])
def test_a_probability_out_of_range_is_an_error(probability: float) -> None:
    with pytest.raises(UserError, match="from 0 to 1"):
        BpeDropout(BYTES, probability)
