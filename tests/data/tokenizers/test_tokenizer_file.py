"""Tokenizer files of the user: ids are shifted by six for every model, and no text is special."""

from __future__ import annotations

import base64
import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from dialog.data.tokenizers import TOKENIZERS, byte_bpe, file, tokenizer_identity
from dialog.data.tokenizers.growth import LARGEST_GROWTH, growth
from dialog.data.tokenizers.tokenizer import EOS, SELF, SPECIAL_TOKENS, UNK, Tokenizer
from dialog.errors import UserError

TEXTS = [
    "Where is the station ? Behind the market , two streets from here . <s> </s> <pad>",
    "The <unk> station is behind the market . <|end|> [CLS] Der Käse kostet zwei Euro .",
] * 3


def bpe() -> tokenizers.Tokenizer:
    """A byte-level BPE like GPT-2's."""
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder, tokenizer.post_processor = decoders.ByteLevel(), processors.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        special_tokens=["<|end|>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def words_bpe() -> tokenizers.Tokenizer:
    """A BPE with word ends, whose merges produce names of special tokens."""
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"))
    tokenizer.pre_tokenizer, tokenizer.decoder = (
        pre_tokenizers.WhitespaceSplit(),
        decoders.BPEDecoder(),
    )
    trainer = trainers.BpeTrainer(
        end_of_word_suffix="</w>", special_tokens=["<unk>"], show_progress=False
    )
    tokenizer.train_from_iterator([*TEXTS, "<s>x"], trainer)
    return tokenizer


def word_piece() -> tokenizers.Tokenizer:
    """A WordPiece model like BERT's, with a template."""
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.decoder = normalizers.BertNormalizer(), decoders.WordPiece()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "<s>"]
    tokenizer.train_from_iterator(
        TEXTS, trainers.WordPieceTrainer(special_tokens=names, show_progress=False)
    )
    template = {"single": "[CLS] $A [SEP]", "special_tokens": [("[CLS]", 2), ("[SEP]", 3)]}
    tokenizer.post_processor = processors.TemplateProcessing(**template)
    return tokenizer


def unigram() -> tokenizers.Tokenizer:
    """A unigram LM like T5's."""
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.decoder = normalizers.NFKC(), decoders.Metaspace()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    names = ["<pad>", "</s>", "<unk>"]
    trainer = trainers.UnigramTrainer(
        special_tokens=names, unk_token="<unk>", vocab_size=90, show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    return tokenizer


def word_level() -> tokenizers.Tokenizer:
    """A word model with `<s>` in its vocabulary."""
    tokenizer = tokenizers.Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.train_from_iterator(
        TEXTS, trainers.WordLevelTrainer(special_tokens=["<unk>"], show_progress=False)
    )
    return tokenizer


MAKERS = (bpe, words_bpe, word_piece, unigram, word_level)
ordinary = st.lists(
    st.sampled_from([*"aekstw .,?", "station", "the", "Where", " is", "kostet"])
).map("".join)
anything = st.lists(
    st.one_of(st.text(max_size=4), st.sampled_from([*SPECIAL_TOKENS, "<", "s>", " ", "the"]))
)


@pytest.fixture(scope="module", params=MAKERS, ids=lambda make: make.__name__)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Any, Any]:
    """A tokenizer, and ours loaded from its file."""
    theirs = request.param()
    path = tmp_path_factory.mktemp("given") / "tokenizer.json"
    theirs.save(str(path))
    return theirs, file(path=str(path))


@settings(max_examples=40)
@given(text=ordinary)
def test_ordinary_text_has_shifted_ids(pair: tuple[Any, Any], text: str) -> None:
    theirs, ours = pair
    unknown = theirs.token_to_id("[UNK]"), theirs.token_to_id("<unk>")
    encoding = theirs.encode(text, add_special_tokens=False)
    assert ours.encode(text) == [UNK if id in unknown else id + 6 for id in encoding.ids]
    assert ours.decode(ours.encode(text)) == theirs.decode(encoding.ids)


@settings(max_examples=40)
@given(text=anything.map("".join))
def test_no_text_becomes_a_special_token(pair: tuple[Any, Any], text: str) -> None:
    _, ours = pair
    text = text.encode("utf-8", "ignore").decode()
    ids = ours.encode(text)
    assert all(token > SELF or token == UNK for token in ids)
    assert max(ids, default=0) < len(ours)
    assert all(ours.label(token).isprintable() for token in ids)
    assert all(0 <= start <= end <= len(text) for start, end in ours.offsets(text))
    assert len(ours.offsets(text)) == len(ids)


def test_every_id_has_a_token(pair: tuple[Any, Any]) -> None:
    theirs, ours = pair
    assert len(ours) == 6 + max(theirs.get_vocab().values()) + 1
    assert tuple(ours.label(token) for token in range(6)) == SPECIAL_TOKENS
    assert len({ours.label(token) for token in range(len(ours))} & {*SPECIAL_TOKENS}) == 6


def test_transformers_gives_the_same_ids(pair: tuple[Any, Any], tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    _, ours = pair
    ours.save(tmp_path / "tokenizer.json")
    fast = AutoTokenizer.from_pretrained(tmp_path)
    for text in (*TEXTS, "<s>stop </s> <self> [CLS]<|end|>"):
        assert fast(text)["input_ids"] == ours.encode(text)


def test_templates_truncation_and_padding_are_removed(tmp_path: Path) -> None:
    theirs = word_piece()
    text = "the station is behind the market"
    plain = theirs.encode(text, add_special_tokens=False).ids
    theirs.enable_truncation(3)
    theirs.enable_padding(length=20)
    theirs.save(str(tmp_path / "user.json"))
    assert file(path=str(tmp_path / "user.json")).encode(text) == [id + 6 for id in plain]
    content = json.loads(bpe().to_str())
    content["model"]["dropout"] = 0.5
    (tmp_path / "user.json").write_text(json.dumps(content))
    ours = file(path=str(tmp_path / "user.json"))
    assert len({tuple(ours.encode(text)) for _ in range(20)}) == 1


def test_text_that_a_bpe_drops_becomes_unknown(tmp_path: Path) -> None:
    tokenizers.Tokenizer(models.BPE({"a": 0, "b": 1}, [])).save(str(tmp_path / "user.json"))
    assert file(path=str(tmp_path / "user.json")).encode("abc") == [6, 7, UNK]


def test_gaps_between_ids_and_name_clashes(tmp_path: Path) -> None:
    vocabulary = {"a": 0, "<given <s>>": 1, "<s>": 4, "b": 6}
    theirs = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token="a"))
    theirs.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    theirs.save(str(tmp_path / "user.json"))
    ours = file(path=str(tmp_path / "user.json"))
    assert len(ours) == 13
    assert ours.encode("b") == [12]
    assert len({ours.label(token) for token in range(13)}) == 13


def test_our_own_files_are_unchanged(tmp_path: Path) -> None:
    for learn in (TOKENIZERS[name] for name in TOKENIZERS if name != "file"):
        learned = learn(TEXTS)
        learned.save(tmp_path / "tokenizer.json")
        assert file(path=str(tmp_path / "tokenizer.json")).fingerprint == learned.fingerprint


def test_a_shifted_file_is_not_shifted_again(tmp_path: Path) -> None:
    word_level().save(str(tmp_path / "user.json"))
    once = file(path=str(tmp_path / "user.json"))
    once.save(tmp_path / "once.json")
    assert file(path=str(tmp_path / "once.json")).fingerprint == once.fingerprint


def test_the_identity_is_the_content_not_the_path(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a.json", "b.json", "c.json")]
    for path, texts in zip(paths, (TEXTS, TEXTS, TEXTS[:1]), strict=True):
        byte_bpe(texts).save(path)
    first, same, other = (tokenizer_identity({"name": "file", "path": str(path)}) for path in paths)
    assert first == same != other
    assert tokenizer_identity({"name": "word", "lower": True}) == {"name": "word", "lower": True}
    with pytest.raises(UserError, match=r"d\.json does not exist; data\.tokenizer\.path"):
        tokenizer_identity({"name": "file", "path": str(tmp_path / "d.json")})


def invalid(**model: object) -> str:
    content = json.loads(words_bpe().to_str())
    content["model"] |= model
    return json.dumps(content)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{}",
        "[" * 100_000,
        "\ud800",
        '{"version": "1.0"}',
        tokenizers.Tokenizer(models.BPE()).to_str(),
        tokenizers.Tokenizer(models.Unigram())
        .to_str()
        .replace('"vocab":[["<unk>",0.0]]', '"vocab":[]'),
        tokenizers.Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a"))
        .to_str()
        .replace('"b":1', '"b":0'),
        tokenizers.Tokenizer(models.WordLevel({"a": 0}, "a"))
        .to_str()
        .replace('"a":0', '"a":2147483648'),
        invalid(merges=[["no", "such"]]),
        invalid(end_of_word_suffix=">"),
        invalid(continuing_subword_prefix="("),
    ],
    ids=range(12),
)
def test_an_invalid_file_is_an_error_with_its_path(tmp_path: Path, content: str) -> None:
    path = tmp_path / "user.json"
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(
        UserError, match=r"user\.json: .*should name a tokenizer\.json|user\.json: .*cannot be"
    ) as error:
        file(path=str(path))
    assert "\n" not in str(error.value)


def growing(*steps: normalizers.Normalizer, decoder: bool = False) -> str:
    theirs = tokenizers.Tokenizer(models.WordLevel({"a": 0, "b": 1}, "a"))
    content = json.loads(theirs.to_str())
    members = [json.loads(step.__getstate__()) for step in steps]
    if decoder:
        content["decoder"] = {"type": "Sequence", "decoders": members}
    else:
        inner = {"type": "Sequence", "normalizers": members[1:]}
        content["normalizer"] = {"type": "Sequence", "normalizers": [members[0], inner]}
    return json.dumps(content)


LONG = normalizers.Replace("a", "a" * 64)
ONE_BY_ONE = normalizers.Replace(tokenizers.Regex("(?=.)"), "a")
CHARSMAP = (4).to_bytes(4, "little") + bytes(4) + b"\0" + b"x" * 300 + b"\0"


@pytest.mark.parametrize(
    "content",
    [
        growing(*[LONG] * 6),
        growing(*[ONE_BY_ONE] * 36),
        growing(*[normalizers.Prepend("a" * 300)] * 2),
        growing(*[LONG] * 6, decoder=True),
        growing(*[normalizers.ByteLevel()] * 36),
        growing(*[normalizers.NFC()] * 2).replace(
            '{"type": "NFC"}',
            json.dumps(
                {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(CHARSMAP).decode()}
            ),
        ),
    ],
    ids=["replace", "zero width", "prepend", "decoder", "bytes", "charsmap"],
)
def test_a_file_that_makes_texts_too_long_is_an_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "user.json"
    path.write_text(content)
    for load in (partial(file, path=str(path)), partial(Tokenizer.load, path)):
        with pytest.raises(UserError, match=r"user\.json: .*times as long"):
            load()


def test_usual_stages_are_short_enough() -> None:
    albert = [
        *(normalizers.Replace(mark, '"') for mark in ("``", "''")),
        *(
            normalizers.NFKD(),
            normalizers.NFC(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
        ),
        normalizers.Replace(tokenizers.Regex(" {2,}"), "▁"),
    ]
    assert growth(json.loads(normalizers.Sequence(albert).__getstate__())) < LARGEST_GROWTH / 64
    assert growth(None) == 1


def test_a_pattern_that_backtracks_too_long_is_an_error(tmp_path: Path) -> None:
    theirs = word_level()
    theirs.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex("(a+)+$"), "isolated")
    theirs.save(str(tmp_path / "user.json"))
    ours, text = file(path=str(tmp_path / "user.json")), "a" * 5000 + "b"
    for encode in (ours.encode, ours.offsets, lambda text: ours.encode_batch([text])):
        with pytest.raises(UserError, match="regular expression"):
            encode(text)


def test_a_folder_or_a_huge_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is not a regular file; data\.tokenizer\.path"):
        file(path=str(tmp_path))
    with (tmp_path / "huge.json").open("wb") as huge:
        huge.truncate(2**29)
    with pytest.raises(UserError, match=r"huge\.json has more than"):
        file(path=str(tmp_path / "huge.json"))


def test_decode_skips_special_ids(pair: tuple[Any, Any]) -> None:
    _, ours = pair
    assert ours.decode([*ours.encode("the market"), EOS, 0]) == ours.decode(
        ours.encode("the market")
    )
