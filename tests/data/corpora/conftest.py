"""Fixtures for corpora that are read from files: sample folders and the laws of every reader."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dialog.data.corpora import Corpus
from dialog.data.dialogue import SPLITS, Dialogue, Malformed
from dialog.errors import UserError

BuildCorpus = Callable[[Path | None], Corpus]
Files = Mapping[str, str]
"""Maps paths below the corpus's folder to contents."""
WriteFiles = Callable[[Files], Path]
CheckLaws = Callable[[BuildCorpus, Files], dict[str, list[Dialogue]]]


@pytest.fixture
def write_files(tmp_path: Path) -> WriteFiles:
    """Write files into a new folder and return it."""
    count = iter(range(1000))

    def write(files: Files) -> Path:
        folder = tmp_path / f"corpus{next(count)}"
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content.encode())
        return folder

    return write


@pytest.fixture
def make_unreadable(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Make listing a folder fail, also for an administrator."""
    scan = os.scandir

    def make(folder: Path) -> None:
        def scandir(path: Path) -> object:
            if Path(path) == folder:
                raise PermissionError(13, "Permission denied")
            return scan(path)

        monkeypatch.setattr(os, "scandir", scandir)

    return make


@pytest.fixture
def check_laws(write_files: WriteFiles, tmp_path: Path) -> CheckLaws:
    """Return the dialogues of each split of a corpus after checking the laws that hold for every
    reader.
    """

    def check(build: BuildCorpus, files: Files) -> dict[str, list[Dialogue]]:
        with pytest.raises(UserError, match=r"data\.path"):
            build(None)
        corpus = build(folder := write_files(files))
        splits = {split: _well_formed(corpus, split) for split in SPLITS}
        assert all(
            str(folder) in dialogue.place for dialogues in splits.values() for dialogue in dialogues
        )
        elsewhere, packed = build(write_files(files)), build(_packed(write_files(files)))
        assert corpus.fingerprint() == elsewhere.fingerprint()
        for split in SPLITS:
            assert splits[split] == [*corpus.dialogues(split)], "a second reading differs"
            assert splits[split] == [*elsewhere.dialogues(split)], "dialogues depend on the folder"
            assert splits[split] == [*packed.dialogues(split)], "a compressed copy differs"
        for name in [*files][:: max(1, len(files) // 6)]:
            changed = build(write_files({**files, name: files[name] + "\n"}))
            assert changed.fingerprint() != corpus.fingerprint(), (
                f"{name} is not part of the fingerprint"
            )
        (empty := tmp_path / "empty").mkdir()
        reads = [lambda split=split: [*build(empty).dialogues(split)] for split in SPLITS]
        for read in (build(empty).fingerprint, *reads):
            with pytest.raises(UserError, match=str(empty)) as caught:
                read()
            assert "\n" not in str(caught.value)
        return splits

    return check


def _well_formed(corpus: Corpus, split: str) -> list[Dialogue]:
    entries = [*corpus.dialogues(split)]
    assert not [entry for entry in entries if isinstance(entry, Malformed)]
    dialogues = [entry for entry in entries if isinstance(entry, Dialogue)]
    assert len({dialogue.id for dialogue in dialogues}) == len(dialogues), "an id occurs twice"
    return dialogues


def _packed(folder: Path) -> Path:
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    return folder
