"""Any number of shards, in any order, gives the same bytes; leftovers are removed, shards in use
are not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.corpora.jsonl import JsonLines
from dialog.data.dialogue import SPLITS, Dialogue, Entry
from dialog.data.preparation.job import Job
from dialog.data.preparation.prepare import merge_shards, prepare, prepare_shard
from dialog.data.reading.parts import Part
from dialog.errors import UserError

pytestmark = pytest.mark.usefixtures("small_blocks")
SIZE = 199
Jobs = Callable[..., Job]
Dialogues = Callable[..., Dialogue]


@pytest.mark.parametrize("count", [1, 3, 7])
def test_shards_in_any_order_merge_to_the_same_bytes(
    tmp_path: Path, job: Jobs, contents: Callable[[Path], dict[str, str]], count: int
) -> None:
    (tmp_path / "alone").mkdir()
    alone = contents(prepare(job(), tmp_path / "alone"))
    root = tmp_path / "root"
    root.mkdir()
    with pytest.raises(UserError, match="run --shard I/N for every I"):
        merge_shards(job(), root)
    assert list(root.iterdir()) == []
    for index in reversed(range(count)):
        if index == 0 and count > 1:
            with pytest.raises(UserError, match=rf"shard 0 of {count} is missing"):
                merge_shards(job(), root)
        prepare_shard(job(), root, index, count)
        prepare_shard(job(), root, index, count)
    folder = merge_shards(job(), root)
    assert contents(folder) == alone
    assert list(root.iterdir()) == [folder]
    assert merge_shards(job(), root) == folder == prepare_shard(job(), root, 0, count)
    assert list(root.iterdir()) == [folder]


def test_shards_are_removed_once_the_data_are_prepared(tmp_path: Path, job: Jobs) -> None:
    prepare_shard(job(), tmp_path, 0, 2)
    folder = prepare(job(), tmp_path)
    assert list(tmp_path.iterdir()) == [folder]
    assert merge_shards(job(), tmp_path) == folder
    assert list(tmp_path.iterdir()) == [folder]


class Interrupted(BuiltinDialogues):
    """Calls a function while a shard is written."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__(size=SIZE)
        self.call = call

    def dialogues(self, split: str) -> Iterator[Entry]:
        if split == "validation":
            self.call()
        yield from super().dialogues(split)


def test_another_preparation_keeps_a_shard_in_use(tmp_path: Path, job: Jobs) -> None:
    def other() -> None:
        prepare(job(), tmp_path)
        assert list(tmp_path.glob(".*.shards/.0-of-2.*.partial"))

    folder = prepare_shard(job(Interrupted(other)), tmp_path, 0, 2)
    assert list(tmp_path.iterdir()) == [folder]
    assert folder == prepare(job(), tmp_path)


def test_leftovers_of_a_killed_shard_are_removed(tmp_path: Path, job: Jobs) -> None:
    def other() -> None:
        (written,) = shards.glob(".0-of-2.*")
        prepare_shard(job(), tmp_path, 0, 2)
        assert list(shards.glob(".0-of-2.*")) == [written]

    shards = prepare_shard(job(), tmp_path, 1, 2)
    (shards / ".0-of-2.abcd1234.partial").mkdir()
    assert prepare_shard(job(Interrupted(other)), tmp_path, 0, 2) == shards
    assert {path.name for path in shards.iterdir()} == {"draft", "0-of-2", "1-of-2", "lock"}


def test_the_later_of_two_merges_finds_the_result(tmp_path: Path, job: Jobs) -> None:
    class Overtaken(BuiltinDialogues):
        passes = 0

        def fingerprint(self) -> dict[str, str]:
            self.passes += 1
            if self.passes == 2:  # at the end of the merge
                merge_shards(job(), tmp_path)
            return super().fingerprint()

    prepare_shard(job(), tmp_path, 0, 1)
    folder = merge_shards(job(Overtaken(size=SIZE)), tmp_path)
    assert list(tmp_path.iterdir()) == [folder]


def test_shards_of_two_counts_do_not_merge(tmp_path: Path, job: Jobs) -> None:
    prepare_shard(job(), tmp_path, 0, 2)
    prepare_shard(job(), tmp_path, 0, 3)
    with pytest.raises(UserError, match=r"found: N = 2, N = 3; remove all but those of one N"):
        merge_shards(job(), tmp_path)


class Growing(BuiltinDialogues):
    """A corpus with one more dialogue of a split at each pass, and the same fingerprint."""

    def __init__(self, split: str, dialogue: Dialogues) -> None:
        super().__init__(size=128)
        self.split = split
        self.dialogue = dialogue
        self.passes = 0

    def dialogues(self, split: str) -> Iterator[Entry]:
        yield from super().dialogues(split)
        if split == self.split:
            self.passes += 1
            yield from (self.dialogue(f"late-{number}", "a", "b") for number in range(self.passes))


def test_a_corpus_that_changes_between_passes_is_an_error(
    tmp_path: Path, job: Jobs, dialogue: Dialogues
) -> None:
    with pytest.raises(
        UserError, match=r"train: the corpus changed while it was read: .* 129 .* 130"
    ):
        prepare(job(Growing("train", dialogue)), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_corpus_that_changes_between_shards_is_an_error(
    tmp_path: Path, job: Jobs, dialogue: Dialogues
) -> None:
    growing = Growing("validation", dialogue)
    for index in range(2):
        prepare_shard(job(growing), tmp_path, index, 2)
    with pytest.raises(UserError, match=r"validation: the corpus changed while it was read"):
        merge_shards(job(growing), tmp_path)


# ------------------------------------------------------------------ parts


class Whole:
    """The dialogues of a corpus without its parts."""

    def __init__(self, corpus: JsonLines) -> None:
        self.dialogues = corpus.dialogues
        self.fingerprint = corpus.fingerprint


class Watched(JsonLines):
    """Records which parts of the training split are read, or None for all of it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.read_parts: list[Part | None] = []

    def part(self, split: str, part: Part) -> Iterator[Entry]:
        if split == "train":
            self.read_parts.append(part)
        return super().part(split, part)

    def dialogues(self, split: str) -> Iterator[Entry]:
        if split == "train":
            self.read_parts.append(None)
        return super().dialogues(split)


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("filters", [(), ({"name": "drop_duplicates"},)])
def test_shards_parse_their_parts_and_give_the_same_bytes(
    tmp_path: Path,
    job: Jobs,
    contents: Callable[[Path], dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
    count: int,
    filters: tuple[dict[str, object], ...],
) -> None:
    monkeypatch.setattr("dialog.data.reading.parts.SMALLEST_PART", 1000)
    lines = [
        json.dumps({"id": f"{n}", "turns": [f"Hi {n % 150}", f"Hello {n % 150} !"]})
        for n in range(SIZE)
    ]
    lines[70:70] = ["broken", ""]
    for split in SPLITS:
        written = lines if split == "train" else lines[:9]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(written))
    whole = prepare(job(Whole(JsonLines(tmp_path)), filters=filters), tmp_path / "whole")
    corpus = Watched(tmp_path)
    parts = corpus.parts("train")
    assert len(parts) > 5
    root = tmp_path / "root"
    for index in range(count):
        corpus.read_parts.clear()
        shards = prepare_shard(job(corpus, filters=filters), root, index, count)
        survey = [None] * len(filters)
        draft = [*survey, *parts] if index == 0 else []
        assert corpus.read_parts == [*draft, *parts[index::count]]
    assert shards.name.endswith("shards")
    assert contents(merge_shards(job(corpus, filters=filters), root)) == contents(whole)


def test_several_shards_name_a_corpus_that_cannot_be_divided(
    tmp_path: Path, job: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    prepare_shard(job(), tmp_path, 0, 1)
    assert not caplog.messages
    prepare_shard(job(BuiltinDialogues(size=100)), tmp_path / "other", 0, 2)
    assert [record.name for record in caplog.records] == ["dialog.data.preparation.division"]
    assert "2 shards" in caplog.text
