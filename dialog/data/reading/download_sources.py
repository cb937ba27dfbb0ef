"""The official download sources of corpora: addresses, licences, checksums."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

CHECKSUMS = Path(__file__).with_name("checksums")
"""One list per corpus of many files; each line is a checksum, two spaces and a path."""
TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class RemoteFile:
    """A file to download.

    Args:
        addresses: Its URLs; each is tried until one succeeds.
        checksum: SHA-256 (64 hexadecimal digits), or object id in a git repository (40 digits).
        name: Path in the corpus folder; "" for an archive, whose `members` are extracted instead.
        members: Patterns of the members to extract from an archive, as `archives.unpack` defines
            them.
    """

    addresses: tuple[str, ...]
    checksum: str
    name: str = ""
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class DownloadSource:
    """The official source of a corpus.

    Args:
        licence: The publisher's licence, in short.
        page: Web page of the corpus.
        holds: Files that the corpus folder must contain.
        languages: ISO 639 codes.
        root: URL prefix of the files listed in `checksums/<corpus>.txt`, if there is such a list.
        files: Further files. A source without root and files has to be downloaded manually.
    """

    licence: str
    page: str
    holds: str
    languages: tuple[str, ...] = ("en",)
    root: str = ""
    files: tuple[RemoteFile, ...] = ()

    @property
    def automatic(self) -> bool:
        """True if the corpus can be downloaded without manual steps."""
        return bool(self.root or self.files)


def all_files(corpus: str, source: DownloadSource) -> list[RemoteFile]:
    """Return the files of a corpus, including those of its checksum list."""
    if not source.root:
        return list(source.files)
    lines = (CHECKSUMS / f"{corpus}.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.split("  ", 1) for line in lines)
    return [
        *source.files,
        *(RemoteFile((source.root + path,), checksum, path) for checksum, path in rows),
    ]


def _read_sources() -> Iterator[tuple[str, DownloadSource]]:
    sources = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    for corpus, source in sources.items():
        files = [
            RemoteFile(
                tuple(file["addresses"]),
                file["checksum"],
                file.get("name", ""),
                tuple(file.get("members", ())),
            )
            for file in source.pop("files", ())
        ]
        languages = tuple(source.pop("languages", ["en"]))
        yield corpus, DownloadSource(**source, languages=languages, files=tuple(files))


DOWNLOADS: Mapping[str, DownloadSource] = MappingProxyType(dict(_read_sources()))
"""Download sources by corpus name."""
