"""Round trips between text and ids, special tokens, spans and labels."""

from __future__ import annotations

import copy
import pickle
import unicodedata
from pathlib import Path

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.tokenizers import byte_bpe, characters, word
from dialog.data.tokenizers.tokenizer import (
    PAD,
    SELF,
    SMALLEST_VOCABULARY,
    SPECIAL_TOKENS,
    Tokenizer,
)
from dialog.errors import UserError

TEXTS = [
    "Where is the station ? Behind the old market , two streets from here .",
    "The station is behind the market . </s> <pad> <self> <self>",
    "Was kostet der Käse ? Der Käse kostet zwei Euro . 你好 你好 👋 👋",
] * 3
TOKENIZER = byte_bpe(TEXTS, vocabulary=600)
BYTES = byte_bpe([], vocabulary=SMALLEST_VOCABULARY)

# what a later Unicode assigns, libraries may normalise apart
assigned = st.characters(exclude_categories=("Cs", "Cn"))
parts = st.sampled_from([*SPECIAL_TOKENS, " ", "station"])
mixed = st.lists(st.one_of(st.text(assigned, max_size=5), parts)).map("".join)


@pytest.mark.parametrize("how", ["load", "pickle", "copy"])
def test_restored_tokenizers_give_the_same_ids(tmp_path: Path, how: str) -> None:
    TOKENIZER.save(tmp_path / "tokenizer.json")
    again = {
        "load": lambda: Tokenizer.load(tmp_path / "tokenizer.json"),
        "pickle": lambda: pickle.loads(pickle.dumps(TOKENIZER)),
        "copy": lambda: copy.deepcopy(TOKENIZER),
    }[how]()
    text = "stop </s> <pad><self> now"
    assert again.encode(text) == TOKENIZER.encode(text)
    assert min(again.encode(text)) > SELF
    assert again.encode_batch([text]) == [again.encode(text)]
    assert again.fingerprint == TOKENIZER.fingerprint
    assert len(again) == len(TOKENIZER)


def test_the_saved_file_opens_in_the_library(tmp_path: Path) -> None:
    TOKENIZER.save(tmp_path / "tokenizer.json")
    plain = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert [plain.token_to_id(token) for token in SPECIAL_TOKENS] == list(range(6))
    text = "Where is the Käse ?"
    assert plain.encode(text).ids == TOKENIZER.encode(text)
    assert plain.decode(plain.encode(text).ids) == text
    assert plain.encode("</s>").ids == [2], "otherwise this test does not cover our flag"


def test_training_is_deterministic_and_depends_on_its_texts() -> None:
    assert byte_bpe(TEXTS, vocabulary=600).fingerprint == TOKENIZER.fingerprint
    assert (
        byte_bpe([*TEXTS, "zebra zebra zebra"], vocabulary=600).fingerprint != TOKENIZER.fingerprint
    )
    assert len(byte_bpe(TEXTS, vocabulary=300)) == 300


def test_without_texts_the_vocabulary_is_the_bytes() -> None:
    assert len(BYTES) == SMALLEST_VOCABULARY
    assert BYTES.decode(BYTES.encode("日本 \0")) == "日本 \0"


@pytest.mark.parametrize("content", [b"", b"{}", b"not json", b"\xff", b'{"version": "1.0"}'])
def test_an_invalid_file_is_an_error_with_its_path(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "tokenizer.json"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"tokenizer\.json: .*prepare") as caught:
        Tokenizer.load(file)
    assert "\n" not in str(caught.value)
    with pytest.raises(UserError, match=r"missing\.json"):
        Tokenizer.load(tmp_path / "missing.json")


def test_missing_special_tokens_are_an_error(tmp_path: Path) -> None:
    tokenizers.Tokenizer(tokenizers.models.BPE()).save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(UserError, match="lacks <pad>"):
        Tokenizer.load(tmp_path / "tokenizer.json")


def test_spans_exclude_the_space_before_a_word() -> None:
    text = "Where is  the station ?"
    assert [text[start:end] for start, end in TOKENIZER.offsets(text)] == [
        "Where",
        "is",
        " ",
        "the",
        "station",
        "?",
    ]


def test_spans_refer_to_the_text_before_nfc() -> None:
    text = "Ka\u0308se e\u0301!"
    spans = TOKENIZER.offsets(text)
    covered = {index for span in spans for index in range(*span)}
    assert covered >= set(range(len(text))) - {5}
    assert text[slice(*spans[-1])] == "!"
    assert all(unicodedata.category(text[start]) != "Mn" for start, _ in spans), "an accent alone"


def test_bytes_of_one_character_share_its_span() -> None:
    assert BYTES.offsets("a🦜") == [(0, 1), *[(1, 2)] * 4]


def test_labels_are_printable() -> None:
    labels = [TOKENIZER.label(token) for token in TOKENIZER.encode("Where is the station\n\t🦜")]
    assert "".join(labels).startswith("Where▁is▁the▁station\\n\\t\\xf0")
    assert TOKENIZER.label(PAD) == "<pad>"
    assert all(
        TOKENIZER.label(token).isprintable() and TOKENIZER.label(token)
        for token in range(len(TOKENIZER))
    )
    with pytest.raises(ValueError, match="no token has the id"):
        TOKENIZER.label(len(TOKENIZER))


@given(mixed)
def test_labels_of_single_bytes(text: str) -> None:
    def shown(byte: int) -> str:
        char = chr(byte) if byte < 128 else "\x80"
        return "▁" if char == " " else char if char.isprintable() else repr(bytes([byte]))[2:-1]

    labels = [BYTES.label(token) for token in BYTES.encode(text)]
    assert labels == [shown(byte) for byte in unicodedata.normalize("NFC", text).encode()]


def test_decode_skips_special_ids() -> None:
    assert TOKENIZER.decode([1, *TOKENIZER.encode("Where"), 2, 0, 0]) == "Where"


# ------------------------------------------------------------------ what tokens do not represent


@given(mixed)
def test_byte_level_tokens_represent_all_of_a_text(text: str) -> None:
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.unknown_bytes(text, ids) == 0
    assert TOKENIZER.is_lossless(text, ids)


@given(mixed)
def test_unknown_bytes_are_those_of_unknown_characters(text: str) -> None:
    """What is not among the characters of the training text, up to combining characters."""
    tokenizer = characters(["Where is it ?"])
    plain = unicodedata.normalize("NFC", text)
    ids = tokenizer.encode(plain)
    unknown = "".join(character for character in plain if character not in "Where is it ?")
    assert tokenizer.unknown_bytes(plain, ids) == len(unknown.encode())
    assert tokenizer.is_lossless(plain, ids)


def test_words_lose_white_space_and_unknown_words() -> None:
    tokenizer, text = word(["Where is it ?"]), "Where is Käse ?"
    assert tokenizer.unknown_bytes(text, tokenizer.encode(text)) == len("Käse".encode())
    assert not tokenizer.is_lossless(text, tokenizer.encode(text))
    for text, lossless in (
        ("Where is it ?", True),
        ("Where  is it ?", False),
        ("Where is it?", False),
    ):
        assert tokenizer.is_lossless(text, tokenizer.encode(text)) is lossless
    assert not word(["it"], lower=True).is_lossless("It", [6])


def test_half_a_character_is_an_error_with_its_position() -> None:
    tokenizer = byte_bpe(["Hello there ."])
    for encode in (
        tokenizer.encode,
        tokenizer.encode_words,
        tokenizer.offsets,
        lambda text: tokenizer.encode_batch(["Hello", text]),
    ):
        with pytest.raises(UserError, match=r"character 3 .*\\ud83d"):
            encode("Hi\ud83d")
