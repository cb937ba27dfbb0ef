"""The first part of a file, its encoding, and what else its bytes show."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dialog.data.reading.files import BYTE_ORDER_MARK, UTF16_MARKS, read_chunks, require_file
from dialog.errors import UserError

SIZE = 2**18
"""Bytes from which a format is detected: some thousand messages."""

KNOWN_BINARY = {
    b"PAR1": "a Parquet file: name its columns in a recipe with data.corpus.name=huggingface",
    b"PK\x03\x04": "a zip archive or a workbook: unpack it, or save the sheet as CSV",
    b"%PDF": "a PDF document: save its text as a file of lines",
    b"SQLite format 3": "a database: export the table of messages as CSV",
    b"\xd0\xcf\x11\xe0": "an old Office file: save the sheet as CSV",
}
"""First bytes of files that are not text, and what to do."""


@dataclass(frozen=True)
class FileSample:
    """The first `SIZE` bytes of a file, decompressed according to its suffix."""

    path: Path
    head: bytes
    whole: bool

    @classmethod
    def of(cls, path: Path) -> FileSample:
        """Read the first part of a file.

        Raises:
            UserError: it cannot be read, or is empty.
        """
        require_file(path, "give a file of chats")
        head = b""
        whole = True
        for chunk in read_chunks(path):
            head += chunk
            if len(head) > SIZE:
                whole = False
                break
        if not head.removeprefix(BYTE_ORDER_MARK).strip():
            raise UserError(f"{path} is empty; give a file of chats")
        return cls(path, head if whole else head[: head.rfind(b"\n", 0, SIZE) + 1 or SIZE], whole)

    def check_text(self) -> None:
        """Raise UserError if the bytes are no text."""
        for start, advice in KNOWN_BINARY.items():
            if self.head.startswith(start):
                raise UserError(f"{self.path} is {advice}")
        if b"\0" in self.head and not self.head.startswith(UTF16_MARKS):
            raise UserError(
                f"{self.path} is a binary file, not text; export the chats as CSV, JSON lines or"
                " text"
            )

    @cached_property
    def encoding(self) -> str:
        """The encoding: UTF-16 by its mark, else UTF-8 if the bytes are valid, else Windows'."""
        if self.head.startswith(UTF16_MARKS):
            return "utf-16"
        for name in ("utf-8", "cp1252"):
            try:
                codecs.getincrementaldecoder(name)().decode(self.head, final=self.whole)
            except UnicodeDecodeError:
                continue
            return name
        return "utf-8:replace"

    @cached_property
    def lines(self) -> list[str]:
        """The lines that are not blank, without their ends."""
        name, _, errors = self.encoding.partition(":")
        text = self.head.decode(name, errors or "ignore").removeprefix("\ufeff")
        return [line for line in text.splitlines() if line.strip()]
