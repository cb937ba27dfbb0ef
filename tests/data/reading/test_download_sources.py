"""The table of download sources: complete, pinned to checksums and commits, and read by a
corpus.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dialog.data.reading.download_sources import CHECKSUMS, DOWNLOADS, all_files

HEXADECIMAL = set("0123456789abcdef")


@pytest.mark.parametrize("corpus", DOWNLOADS)
def test_a_source_pins_its_files(corpus: str) -> None:
    source = DOWNLOADS[corpus]
    files = all_files(corpus, source)
    assert source.licence
    assert source.page.startswith("http")
    assert source.automatic == bool(files)
    for file in files:
        assert len(file.checksum) in (40, 64)
        assert set(file.checksum) <= HEXADECIMAL
        assert bool(file.name) != bool(file.members)
        assert not Path(file.name).is_absolute()
        assert ".." not in Path(file.name).parts
        for address in file.addresses:
            assert address.startswith(("http://", "https://"))
            if "githubusercontent" in address:
                commit = address.split("/")[5]
                assert len(commit) == 40
                assert set(commit) <= HEXADECIMAL
    assert len({file.name or file.addresses for file in files}) == len(files)
    assert len({file.checksum for file in files}) == len(files)


def test_every_checksum_list_belongs_to_a_source() -> None:
    assert {path.stem for path in CHECKSUMS.iterdir()} == {
        name for name, source in DOWNLOADS.items() if source.root
    }


def test_every_source_has_a_corpus() -> None:
    from dialog.data.corpora import CORPORA

    assert set(DOWNLOADS) <= set(CORPORA)
