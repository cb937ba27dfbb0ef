"""What .xz files hold, to their very end and in bounded memory."""

from __future__ import annotations

import lzma
from io import RawIOBase
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK = 2**17
MEMORY = 2**28
"""The most bytes that unpacking may take; the strongest preset needs a quarter of it."""


class XzStreams(RawIOBase):
    """One stream after the other, where `lzma.open` takes junk behind the first, or a damaged second, for the end.

    Behind a stream there may be padding, zero bytes in fours, as the format has it.

    Args:
        packed: The file as it is.
    """

    def __init__(self, packed: BinaryIO) -> None:
        self.packed = packed
        self.stream = _stream()

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill a part of the buffer; 0 at the end.

        Raises:
            EOFError: a stream is cut off.
            lzma.LZMAError: a stream is damaged, or followed by something else.
        """
        room = memoryview(buffer)
        while True:
            if self.stream.eof:
                more = self._behind()
                if not more:
                    return 0
                self.stream = _stream()
            else:
                more = self.packed.read(CHUNK) if self.stream.needs_input else b""
                if self.stream.needs_input and not more:
                    raise EOFError("the compressed file ends too early")
            if data := self.stream.decompress(more, len(room)):
                room[: len(data)] = data
                return len(data)

    def _behind(self) -> bytes:
        """What follows the stream that ended, without padding; nothing at the end of the file."""
        padding, more = 0, self.stream.unused_data or self.packed.read(CHUNK)
        while more and not more.strip(b"\0"):
            padding += len(more)
            more = self.packed.read(CHUNK)
        rest = more.lstrip(b"\0")
        if (padding + len(more) - len(rest)) % 4:
            raise lzma.LZMAError("zero bytes behind a stream, which should come in fours")
        return rest


def _stream() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)
