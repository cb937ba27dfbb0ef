"""Parallel text: aligned lines, and files of unequal length."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.config.components import build
from dialog.data.corpora import CORPORA
from dialog.data.corpora.parallel import Parallel, multi30k
from dialog.data.dialogue import Malformed, Turn
from dialog.errors import UserError

LINE = st.text(st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]))
"""Any text without LF and CR: also U+2028, U+0085, form feeds and file separators."""


def write(folder: Path, de: bytes = b"ein Haus\nzwei\n", en: bytes = b"a house\ntwo\n") -> Parallel:
    folder.mkdir(exist_ok=True)
    for part in ("train", "val", "test"):
        (folder / f"{part}.de").write_bytes(de if part == "train" else b"Hund\n")
        (folder / f"{part}.en").write_bytes(en if part == "train" else b"dog\n")
    return Parallel(folder, source="de", target="en")


def test_a_pair_is_a_dialogue_of_two_languages(tmp_path: Path) -> None:
    corpus = write(tmp_path)
    first, second = corpus.dialogues("train")
    assert (first.id, second.id) == ("train-1", "train-2")
    assert first.turns == (Turn("de", "ein Haus"), Turn("en", "a house"))
    assert first.place == f"{tmp_path / 'train.de'}:1"
    assert [dialogue.id for dialogue in corpus.dialogues("validation")] == ["validation-1"]


@given(pairs=st.lists(st.tuples(LINE, LINE), min_size=1))
def test_every_line_keeps_its_partner(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    folder = tmp_path_factory.mktemp("parallel")
    de, en = ("".join(f"x{pair[side]}\n" for pair in pairs).encode() for side in (0, 1))
    pairs_read = [
        tuple(turn.text for turn in dialogue.turns)
        for dialogue in write(folder, de, en).dialogues("train")
    ]
    assert pairs_read == [(f"x{left}", f"x{right}") for left, right in pairs]


def test_unicode_separators_do_not_shift_lines(tmp_path: Path) -> None:
    odd = "a\u2028b\u0085c\x0bd\x1ce\u00a0"
    corpus = write(tmp_path, f"\ufeff{odd}\r\nzwei".encode(), b"one\ntwo\r\n")
    assert [[turn.text for turn in dialogue.turns] for dialogue in corpus.dialogues("train")] == [
        [odd, "one"],
        ["zwei", "two"],
    ]


@pytest.mark.parametrize(
    ("de", "en", "counts"),
    [
        (b"eins\nzwei\ndrei\nvier\n", b"one\ntwo\n", ("4", "2")),
        (b"eins\n", b"one\ntwo\nthree\n", ("1", "3")),
        (b"eins\n\n", b"one\n", ("2", "1")),
    ],
)
def test_unequal_line_counts_are_rejected(
    tmp_path: Path, de: bytes, en: bytes, counts: tuple[str, str]
) -> None:
    corpus = write(tmp_path, de, en)
    with pytest.raises(UserError) as caught:
        list(corpus.dialogues("train"))
    assert f"train.de has {counts[0]} lines, but {tmp_path / 'train.en'} {counts[1]};" in str(
        caught.value
    )
    assert "\n" not in str(caught.value)


def test_the_file_of_a_malformed_line_is_reported(tmp_path: Path) -> None:
    corpus = write(tmp_path, b"eins\nzwei\ndr\xe4i\n", b"one\ntw\xffo\nthree\n")
    first, second, third = corpus.dialogues("train")
    assert first.id == "train-1"
    assert isinstance(second, Malformed)
    assert "train.en:2: byte 3" in second.message
    assert isinstance(third, Malformed)
    assert "train.de:3: byte 3" in third.message


def test_an_empty_line_is_a_turn_without_text(tmp_path: Path) -> None:
    _, second = write(tmp_path, b"eins\n\n", b"one\ntwo\n").dialogues("train")
    assert second.turns == (Turn("de", ""), Turn("en", "two"))


def test_a_missing_path_or_file_is_reported_with_a_fix(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^parallel needs .*train\.de.*data\.path.*DIALOG_DATA"):
        Parallel(None, source="de", target="en")
    with pytest.raises(UserError, match="both 'de'"):
        Parallel(tmp_path, source="de", target="de")
    with pytest.raises(UserError, match="parallel: missing required argument: source, target"):
        build(CORPORA, {"name": "parallel"}, path=tmp_path)
    corpus = write(tmp_path)
    (tmp_path / "test.en").unlink()
    with pytest.raises(UserError, match=r"test\.en does not exist.*data\.path=DIR"):
        corpus.fingerprint()
    (tmp_path / "test.en").write_bytes(b"")
    with pytest.raises(UserError, match=r"test\.en is empty"):
        list(corpus.dialogues("test"))


def test_multi30k_has_defaults_for_parts_and_languages(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"^multi30k needs .*train\.de.*folder that holds a folder multi30k"
    ):
        multi30k(None)
    for part in ("train", "val", "test_2016_flickr"):
        for language in ("de", "en"):
            (tmp_path / f"{part}.{language}").write_text(f"{part} {language}\n")
    (dialogue,) = build(CORPORA, {"name": "multi30k"}, path=tmp_path).dialogues("test")
    assert dialogue.turns == (Turn("de", "test_2016_flickr de"), Turn("en", "test_2016_flickr en"))
    (reverse,) = build(
        CORPORA, {"name": "multi30k", "source": "en", "target": "de"}, path=tmp_path
    ).dialogues("train")
    assert [turn.speaker for turn in reverse.turns] == ["en", "de"]
    assert {key: parameter.default for key, parameter in CORPORA.arguments("multi30k").items()} == {
        "source": "de",
        "target": "en",
        "train": "train",
        "validation": "val",
        "test": "test_2016_flickr",
    }
