"""What holds for every corpus that is read from files, each as a tiny one of ours in its published format."""

from __future__ import annotations

import gzip
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.components import build
from dialog.data.corpora import CORPORA, Corpus
from dialog.data.dialogue import SPLITS, Dialogue, Entry
from dialog.errors import UserError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESS: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress, ".zst": zstd.compress}

TEXT = "Hi !\nHello .\n\nAnna ?\nYes .\nGood .\n"
CHAT = '{"messages": [{"role": "user", "content": "Hi %s"}, {"role": "assistant", "content": "Hello ."}]}\n'
FILES: dict[str, dict[str, str]] = {
    "messages": {f"{split}.jsonl": CHAT % split + CHAT % 2 for split in SPLITS},
    "multi30k": {
        f"{part}.{end}": f"{part} {end}\n" for part in ("train", "val", "test_2016_flickr") for end in ("de", "en")
    },
    "text": {f"{split}.txt": TEXT for split in SPLITS},
}
"""By corpus: what stands in which file, none of them too many."""


def write(folder: Path, files: dict[str, str], corpus: str, change: Callable[[bytes], bytes] = bytes) -> Corpus:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(change(content.encode()))
    return build(CORPORA, {"name": corpus}, path=folder)


def read(corpus: Corpus) -> dict[str, list[Entry]]:
    return {split: list(corpus.dialogues(split)) for split in SPLITS}


@pytest.fixture(params=FILES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_it_reads_the_same_each_time_each_with_a_place_and_an_id_of_its_own(tmp_path: Path, name: str) -> None:
    corpus = write(tmp_path, FILES[name], name)
    found = read(corpus)
    assert found == read(corpus)
    for entries in found.values():
        dialogues = [entry for entry in entries if isinstance(entry, Dialogue)]
        assert dialogues == entries
        assert dialogues
        assert len({each.id for each in dialogues}) == len(dialogues)
        assert all(each.turns and str(tmp_path) in each.place for each in dialogues)
        assert all(turn.speaker and turn.text for each in dialogues for turn in each.turns)


@pytest.mark.parametrize("suffix", COMPRESS)
def test_a_compressed_copy_reads_the_same(tmp_path: Path, name: str, suffix: str) -> None:
    packed = {f"{file}{suffix}": content for file, content in FILES[name].items()}
    plain = write(tmp_path / "plain", FILES[name], name)
    assert read(write(tmp_path / "packed", packed, name, COMPRESS[suffix])) == read(plain)


@pytest.mark.parametrize(
    "change",
    [lambda raw: raw.replace(b"\n", b"\r\n"), lambda raw: b"\xef\xbb\xbf" + raw, lambda raw: raw.removesuffix(b"\n")],
    ids=["CRLF", "byte order mark", "no last line end"],
)
def test_line_ends_and_byte_order_marks_are_no_text(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes]
) -> None:
    plain = write(tmp_path / "plain", FILES[name], name)
    assert read(write(tmp_path / "changed", FILES[name], name, change)) == read(plain)


def test_the_fingerprint_follows_the_content_not_the_place(tmp_path: Path, name: str) -> None:
    before = write(tmp_path / "one", FILES[name], name).fingerprint()
    assert write(tmp_path / "two", FILES[name], name).fingerprint() == before
    for number, file in enumerate(FILES[name]):
        changed = {**FILES[name], file: FILES[name][file] + "\n"}
        assert write(tmp_path / f"changed-{number}", changed, name).fingerprint() != before


def test_what_is_missing_is_named_with_how_to_set_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=rf"^{name} needs .*data\.path.*DIALOG_DATA"):
        build(CORPORA, {"name": name}, path=None)
    refused = []
    for file in FILES[name]:
        corpus = write(tmp_path, FILES[name], name)
        (tmp_path / file).unlink()
        with pytest.raises(UserError) as caught:
            read(corpus)
        refused.append(str(caught.value))
        assert str(tmp_path / file) in refused[-1]
        with pytest.raises(UserError, match="^[^\n]*$"):
            corpus.fingerprint()
    assert not [message for message in refused if "\n" in message]


def test_an_empty_file_is_refused_by_name(tmp_path: Path, name: str) -> None:
    for file in FILES[name]:
        corpus = write(tmp_path, {**FILES[name], file: ""}, name)
        with pytest.raises(UserError, match="is empty|not JSON") as caught:
            read(corpus)
        assert str(tmp_path / file) in str(caught.value)
