"""Trained tokenizers: round trips, unknown tokens, spans, vocabularies, and other readers of their
files.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import unicodedata
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dialog.data.tokenizers import TOKENIZERS, byte_bpe, characters, word
from dialog.data.tokenizers.tokenizer import (
    BOS,
    EOS,
    PAD,
    SELF,
    SMALLEST_VOCABULARY,
    SPECIAL_TOKENS,
    UNK,
    Tokenizer,
)
from dialog.errors import UserError

TEXTS = [
    "Where is the station ? Behind the old market , two streets from here .",
    "Was kostet der Käse ? Der Käse kostet zwei Euro .\nשלום עולם",
    "你好 ， 这里 有 一家 书店 。 👩‍👩‍👧 a\u0323\u0307 </s> <pad>",
] * 3
LEARNED = {name: learn(TEXTS) for name, learn in TOKENIZERS.items() if name != "file"}
PUBLISHED = word(TEXTS, join_marks=False)
RULE = r"\w+|[^\w\s]|\n"

# what a later Unicode assigns, libraries may normalise apart
assigned = st.characters(exclude_categories=("Cs", "Cn"))
pieces = st.sampled_from(
    [*SPECIAL_TOKENS, " ", "station", "Käse", "书店", "👩‍👩‍👧", "שלום", "a\u0323\u0307"]
)
mixed = st.lists(st.one_of(st.text(assigned, max_size=5), pieces)).map("".join)
shown = st.lists(st.sampled_from(sorted(set("".join(TEXTS))))).map("".join)


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


# ------------------------------------------------------------------ laws


@given(text=mixed)
@example(text="e\u0301 \u0627\u0644 👩‍👩‍👧 \u202e")
def test_byte_level_round_trip(text: str) -> None:
    ids = LEARNED["byte_bpe"].encode(text)
    assert LEARNED["byte_bpe"].decode(ids) == nfc(text)
    assert all(token > SELF for token in ids)


@given(shown)
@example("B\u1e02\u0307")
def test_character_round_trip(text: str) -> None:
    """Each character of the composed text is a token; unknown ones have no text."""
    tokenizer = LEARNED["characters"]
    vocabulary = {tokenizer.decode([token]) for token in range(6, len(tokenizer))}
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == "".join(char for char in nfc(text) if char in vocabulary)
    assert len(ids) == len(nfc(text))


@given(mixed)
def test_words_are_the_matches_of_the_rule(text: str) -> None:
    ids = {PUBLISHED.decode([number]): number for number in range(6, len(PUBLISHED))}
    assert PUBLISHED.encode(text) == [ids.get(match, UNK) for match in re.findall(RULE, nfc(text))]


def test_the_rule_matches_characters_as_python_does() -> None:
    """All characters, but only some ideographs and private ones, which are many and alike."""
    kinds = ((char, unicodedata.category(char)) for char in map(chr, range(sys.maxunicode + 1)))
    characters = [(char, kind) for char, kind in kinds if kind not in ("Cs", "Cn")]
    text = nfc(
        "".join(
            f"a{c}b "
            for n, (c, kind) in enumerate(characters)
            if kind not in ("Lo", "Co") or n % 50 == 0
        )
    )
    matches = [text[start:end] for start, end in PUBLISHED.offsets(text)]
    assert matches == re.findall(RULE, text)


@pytest.mark.parametrize("name", LEARNED)
@settings(max_examples=40)
@given(text=mixed)
def test_spans_tile_the_text_and_no_token_is_special(name: str, text: str) -> None:
    ids, spans = LEARNED[name].encode(text), LEARNED[name].offsets(text)
    assert all(token > SELF or token == UNK for token in ids)
    assert LEARNED[name].encode_batch([text]) == [ids]
    assert len(spans) == len(ids)
    assert spans == sorted(spans)
    assert all(0 <= start < end <= len(text) for start, end in spans)
    covered = {place for span in spans for place in range(*span)}
    assert all(text[place].isspace() for place in range(len(text)) if place not in covered)
    assert [token for word in LEARNED[name].encode_words(text) for token in word] == ids


@example(text="a\n\r b")
@given(text=mixed.map(nfc))
def test_spans_of_words_and_characters(text: str) -> None:
    spans = [text[start:end] for start, end in PUBLISHED.offsets(text)]
    # their spans have the white space behind
    line_ends_alone = [span[0] if span.isspace() else span for span in spans]
    assert line_ends_alone == re.findall(RULE, text)
    assert [text[start:end] for start, end in LEARNED["characters"].offsets(text)] == list(text)


@pytest.mark.parametrize(
    "text",
    [
        "नमस्ते दुनिया !",
        "สวัสดี ครับ",
        "السَّلامُ عليكم",
        "می\u200cخواهم",
        "❤\ufe0f ok",
        "1\ufe0f\u20e3 a\u0323\u0307",
    ],
)
def test_marks_belong_to_the_character_before(text: str) -> None:
    tokenizer = word([text])
    assert tokenizer.decode(tokenizer.encode(text)) == nfc(text)
    assert len(tokenizer.encode(text)) == len(text.split())


@given(text=mixed.map(nfc))
def test_marks_do_not_change_other_words(text: str) -> None:
    unmarked = "".join(
        char for char in text if unicodedata.category(char)[0] != "M" and char not in "\u200c\u200d"
    )
    assert LEARNED["word"].offsets(unmarked) == PUBLISHED.offsets(unmarked)


@pytest.mark.parametrize("name", LEARNED)
def test_labels_are_printable(name: str) -> None:
    labels = [LEARNED[name].label(token) for token in range(len(LEARNED[name]))]
    assert all(label and label.isprintable() for label in labels)
    assert tuple(labels[:6]) == SPECIAL_TOKENS
    assert any("Käse" in label for label in labels) is (name != "characters")
    assert name != "characters" or {"▁", "\\n", "书"} < set(labels)


# ------------------------------------------------------------------ other readers


@pytest.mark.parametrize("name", LEARNED)
def test_other_readers_of_the_file_give_the_same_ids(name: str, tmp_path: Path) -> None:
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    file = tmp_path / "tokenizer.json"
    LEARNED[name].save(file)
    library = tokenizers.Tokenizer.from_file(str(file))
    library.encode_special_tokens = True
    fast = PreTrainedTokenizerFast(tokenizer_file=str(file), split_special_tokens=True)
    automatic = AutoTokenizer.from_pretrained(tmp_path)
    for text in (*TEXTS, "<s>stop </s> <pad><self> <unk>", "", " a  b ", "日本 Zebra\t"):
        ids = LEARNED[name].encode(text)
        assert library.encode(text).ids == ids
        assert (
            fast(text, add_special_tokens=False)["input_ids"] == automatic(text)["input_ids"] == ids
        )
        assert automatic.decode(ids, skip_special_tokens=True) == LEARNED[name].decode(ids)
        assert Tokenizer.load(file).encode(text) == ids
    assert fast.convert_tokens_to_ids(list(SPECIAL_TOKENS)) == list(range(6))
    assert (automatic.pad_token_id, automatic.bos_token_id, automatic.eos_token_id) == (
        PAD,
        BOS,
        EOS,
    )
    assert len(automatic) == len(LEARNED[name])


def test_training_does_not_depend_on_process_or_threads() -> None:
    code = "import sys; from dialog.data.tokenizers import *\nfor name in sys.argv[2:]:\n"
    code += " print(TOKENIZERS[name](sys.argv[1].split('|')).fingerprint)"
    environment = os.environ | {"RAYON_NUM_THREADS": "3", "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", code, "|".join(TEXTS), *LEARNED]
    printed = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert printed.split() == [tokenizer.fingerprint for tokenizer in LEARNED.values()]


# ------------------------------------------------------------------ vocabularies


def test_byte_bpe_keeps_every_byte() -> None:
    for texts in ([], TEXTS):
        tokenizer = byte_bpe(texts, vocabulary=SMALLEST_VOCABULARY)
        assert len(tokenizer) == SMALLEST_VOCABULARY
        assert tokenizer.decode(tokenizer.encode("日本 \0")) == "日本 \0"
    assert SMALLEST_VOCABULARY < len(byte_bpe(TEXTS * 4, vocabulary=300)) <= 300


def test_vocabularies_are_ordered_by_frequency() -> None:
    texts = ["b b c a ü a B"]
    assert [word(texts).label(token) for token in range(6, 11)] == ["a", "b", "B", "c", "ü"]
    assert len(word(texts, vocabulary=8)) == 8
    assert word(texts, vocabulary=8).encode("a b B") == [6, 7, UNK]
    assert word(texts, min_frequency=2).encode("a b B") == [6, 7, UNK]
    assert word(texts, lower=True).encode("A B") == word(texts, lower=True).encode("a b") == [7, 6]
    assert characters(["abba", "\u0301e\u0301"], vocabulary=8).encode("abé") == [6, 7, UNK]
    assert len(word([" ".join(f"w{number}" for number in range(40_000))])) == 40_006


def test_the_vocabulary_holds_all_words_of_the_rule() -> None:
    counts = Counter(match for text in TEXTS for match in re.findall(RULE, nfc(text)))
    assert len(PUBLISHED) == 6 + len(counts)
    assert word(TEXTS).decode(word(TEXTS).encode("Where is Käse?")) == "Where is Käse ?"


@pytest.mark.parametrize(
    ("learn", "arguments", "message"),
    [
        (byte_bpe, {"vocabulary": 261}, "at least 262"),
        (word, {"vocabulary": 6}, "more than its 6 special tokens"),
        (characters, {"vocabulary": 0}, "more than its 6 special tokens"),
        (word, {"min_frequency": 0}, "min_frequency is 0; give at least 1"),
        (byte_bpe, {"sample": 0}, "sample is 0"),
    ],
)
def test_numbers_out_of_range_are_errors(
    learn: Callable[..., Tokenizer], arguments: dict[str, int], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        learn(TEXTS, **arguments)
