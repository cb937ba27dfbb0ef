"""Laws of corpora that are read from files, checked on small samples in their published formats."""

from __future__ import annotations

import gzip
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.config.components import build
from dialog.data.corpora import CORPORA, Corpus
from dialog.data.dialogue import SPLITS, Dialogue, Entry, Malformed
from dialog.errors import UserError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstd.compress,
}

TEXT = "Hi !\nHello .\n\nAnna ?\nYes .\nGood .\n"
TABLE = "dialogue,speaker,text\na,Anna,Hi !\na,Bo,Hello .\nb,Bo,Who ?\nb,Anna,Me .\n"
CHAT = (
    '{"messages": [{"role": "user", "content": "Hi %s"}, {"role": "assistant", "content": "Hello'
    ' ."}]}\n'
)
PARLAI = (
    "text:Hi !\tlabels:Hello .\ntext:Fine ?\tlabels:Fine .\tepisode_done:True\ntext:Bye"
    " .\tlabels:Bye !\n"
)
PERSONA = (
    "1 your persona: i sing .\n2 hi !\thello .\t\thello .|bye .\n1 your persona: i swim .\n2 who"
    " ?\tme .\n"
)
UTTERANCE = (
    '{"id": "%d-%s", "conversation_id": "%d-a", "reply-to": %s, "speaker": "Anna", "text": "%d'
    ' %s"}\n'
)
MANY = range(40)
"""Enough dialogues for every split, if the split is hashed."""

Files = dict[str, str]
SAMPLES: dict[str, tuple[dict[str, object], Files]] = {
    "convokit": (
        {},
        {
            "utterances.jsonl": "".join(
                UTTERANCE % (n, "a", n, "null", n, "Hi")
                + UTTERANCE % (n, "b", n, f'"{n}-a"', n, "Bye")
                for n in MANY
            ),
            "conversations.json": '{"0-a": {"title": "First"}}\n',
        },
    ),
    "cornell": (
        {},
        {
            "movie_lines.txt": "".join(
                f"L{n * 2 + i} +++$+++ u{i} +++$+++ m{n} +++$+++ ANNA +++$+++ Hi {i} !\n"
                for n in MANY
                for i in (1, 0)
            ),
            "movie_conversations.txt": "".join(
                f"u0 +++$+++ u1 +++$+++ m{n} +++$+++ ['L{n * 2}', 'L{n * 2 + 1}']\n" for n in MANY
            ),
        },
    ),
    "csv": ({}, {f"{split}.csv": TABLE for split in SPLITS}),
    "dailydialog": (
        {},
        {f"{split}/dialogues_{split}.txt": "Hi . __eou__ Ho . __eou__\n" for split in SPLITS},
    ),
    "jsonl": ({}, {f"{split}.jsonl": '{"turns": ["Hi", "Hello"]}\n' for split in SPLITS}),
    "messages": ({}, {f"{split}.jsonl": CHAT % split + CHAT % 2 for split in SPLITS}),
    "multi30k": (
        {},
        {
            f"{part}.{end}": f"{part} {end}\n"
            for part in ("train", "val", "test_2016_flickr")
            for end in ("de", "en")
        },
    ),
    "opensubtitles": (
        {"turns": 2, "stretch": 2},
        {"en.txt": "".join(f"Line {n} .\n" for n in MANY)},
    ),
    "parlai": ({}, {f"{part}.txt": PARLAI for part in ("train", "valid", "test")}),
    "personachat": (
        {},
        {f"{part}_self_original.txt": PERSONA for part in ("train", "valid", "test")},
    ),
    "text": ({}, {f"{split}.txt": TEXT for split in SPLITS}),
    "ubuntu": (
        {},
        {
            f"dialogs/{n % 3}/{n}.tsv": f"2004\tanna\t\thi {n}\n2004\tbo\tanna\thello\n"
            for n in MANY
        },
    ),
}
"""Maps a corpus to its arguments and its files."""


def write(
    folder: Path, files: Files, corpus: str, change: Callable[[bytes], bytes] = bytes
) -> Corpus:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(change(content.encode()))
    return build(CORPORA, {"name": corpus, **SAMPLES[corpus][0]}, path=folder)


def read(corpus: Corpus) -> dict[str, list[Entry]]:
    return {split: list(corpus.dialogues(split)) for split in SPLITS}


@pytest.fixture(params=SAMPLES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def files(name: str) -> Files:
    return SAMPLES[name][1]


def test_reading_is_repeatable_and_ids_are_unique(tmp_path: Path, name: str, files: Files) -> None:
    corpus = write(tmp_path, files, name)
    splits = read(corpus)
    assert splits == read(corpus)
    for entries in splits.values():
        dialogues = [entry for entry in entries if isinstance(entry, Dialogue)]
        assert dialogues == entries
        assert dialogues
        assert len({dialogue.id for dialogue in dialogues}) == len(dialogues)
        assert all(
            len(dialogue.turns) > 1 and str(tmp_path) in dialogue.place for dialogue in dialogues
        )
        assert all(turn.speaker and turn.text for dialogue in dialogues for turn in dialogue.turns)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_copy_is_read_alike(
    tmp_path: Path, name: str, files: Files, suffix: str
) -> None:
    packed = {f"{file}{suffix}": content for file, content in files.items()}
    plain = write(tmp_path / "plain", files, name)
    assert read(write(tmp_path / "packed", packed, name, COMPRESS[suffix])) == read(plain)


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.replace(b"\n", b"\r\n"),
        lambda raw: b"\xef\xbb\xbf" + raw,
        lambda raw: raw.removesuffix(b"\n"),
    ],
    ids=["CRLF", "byte order mark", "no last line end"],
)
def test_line_ends_and_byte_order_marks_are_not_text(
    tmp_path: Path, name: str, files: Files, change: Callable[[bytes], bytes]
) -> None:
    plain = write(tmp_path / "plain", files, name)
    assert read(write(tmp_path / "changed", files, name, change)) == read(plain)


def test_the_fingerprint_follows_the_content_not_the_place(
    tmp_path: Path, name: str, files: Files
) -> None:
    before = write(tmp_path / "one", files, name).fingerprint()
    two = write(tmp_path / "two", files, name)
    assert two.fingerprint() == before
    for file, content in files.items():
        (tmp_path / "two" / file).write_text(content + "\n")
        assert two.fingerprint() != before
        (tmp_path / "two" / file).write_text(content)
    assert two.fingerprint() == before


def test_a_missing_path_or_file_is_reported_with_a_fix(
    tmp_path: Path, name: str, files: Files
) -> None:
    with pytest.raises(UserError, match=rf"^{name} needs .*data\.path.*DIALOG_DATA"):
        build(CORPORA, {"name": name}, path=None)
    with pytest.raises(
        UserError, match=r"^.*nowhere.* does not exist|^.*nowhere.* cannot be read"
    ) as caught:
        build(CORPORA, {"name": name, **SAMPLES[name][0]}, path=tmp_path / "nowhere").fingerprint()
    assert "\n" not in str(caught.value)
    corpus = write(tmp_path, files, name)
    for file in files if name != "ubuntu" else ():  # a dialogue less is a valid corpus
        (tmp_path / file).rename(tmp_path / "aside")
        for use in (read, lambda corpus: corpus.fingerprint()):
            with pytest.raises(UserError, match=r"does not exist") as caught:
                use(corpus)
            assert str(tmp_path / file) in str(caught.value)
            assert "\n" not in str(caught.value)
        (tmp_path / "aside").rename(tmp_path / file)


def test_an_empty_file_is_reported(tmp_path: Path, name: str, files: Files) -> None:
    for file in [*files][:3]:
        corpus = write(tmp_path, {**files, file: ""}, name)
        try:
            messages = [
                entry.message
                for entries in read(corpus).values()
                for entry in entries
                if isinstance(entry, Malformed)
            ]
        except UserError as error:
            messages = [str(error)]
        assert len(messages) == 1
        assert str(tmp_path / file) in messages[0]
        assert "\n" not in messages[0]
