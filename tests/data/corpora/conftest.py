"""What holds of every corpus that is read from files, whatever its format."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dialog.data.corpora import Corpus
from dialog.data.dialogue import SPLITS, Dialogue, Malformed
from dialog.errors import UserError

Make = Callable[[Path | None], Corpus]
Files = Mapping[str, str]
"""From names below the corpus's folder to what they hold."""
Lay = Callable[[Files], Path]
Laws = Callable[[Make, Files], dict[str, list[Dialogue]]]


@pytest.fixture
def lay(tmp_path: Path) -> Lay:
    """``lay(files)``: a folder of its own that holds the files."""
    count = iter(range(1000))

    def laid(files: Files) -> Path:
        folder = tmp_path / f"corpus{next(count)}"
        for name, content in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content.encode())
        return folder

    return laid


@pytest.fixture
def close(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """``close(folder)``: nobody may read it, not even an administrator."""
    scan = os.scandir

    def closed(folder: Path) -> None:
        def scandir(path: Path) -> object:
            if Path(path) == folder:
                raise PermissionError(13, "Permission denied")
            return scan(path)

        monkeypatch.setattr(os, "scandir", scandir)

    return closed


@pytest.fixture
def laws(lay: Lay, tmp_path: Path) -> Laws:
    """``laws(make, files)``: the dialogues of each split, of which the laws are seen to hold."""

    def held(make: Make, files: Files) -> dict[str, list[Dialogue]]:
        with pytest.raises(UserError, match=r"data\.path"):
            make(None)
        corpus = make(folder := lay(files))
        found = {split: _well_formed(corpus, split) for split in SPLITS}
        assert all(str(folder) in dialogue.place for dialogues in found.values() for dialogue in dialogues)
        elsewhere, packed = make(lay(files)), make(_packed(lay(files)))
        assert corpus.fingerprint() == elsewhere.fingerprint()
        for split in SPLITS:
            assert found[split] == [*corpus.dialogues(split)], "a second reading differs"
            assert found[split] == [*elsewhere.dialogues(split)], "the place changes what is read"
            assert found[split] == [*packed.dialogues(split)], "a compressed copy reads differently"
        for name in files:
            changed = make(lay({**files, name: files[name] + "\n"}))
            assert changed.fingerprint() != corpus.fingerprint(), f"{name} is no part of the fingerprint"
        (nothing := tmp_path / "nothing").mkdir()
        for read in (
            make(nothing).fingerprint,
            *(lambda split=split: [*make(nothing).dialogues(split)] for split in SPLITS),
        ):
            with pytest.raises(UserError, match=str(nothing)) as caught:
                read()
            assert "\n" not in str(caught.value)
        return found

    return held


def _well_formed(corpus: Corpus, split: str) -> list[Dialogue]:
    entries = [*corpus.dialogues(split)]
    assert not [entry for entry in entries if isinstance(entry, Malformed)]
    dialogues = [entry for entry in entries if isinstance(entry, Dialogue)]
    assert len({dialogue.id for dialogue in dialogues}) == len(dialogues), "an id comes twice"
    return dialogues


def _packed(folder: Path) -> Path:
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    return folder
