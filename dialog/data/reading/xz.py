"""Decompression of .xz files, strict up to the end of the file and within bounded memory."""

from __future__ import annotations

import lzma
from io import RawIOBase
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

CHUNK = 2**17
MEMORY = 2**28
"""Most bytes of memory for decompression; the strongest preset needs a quarter of it."""


class XzReader(RawIOBase):
    """Decompressed content of all concatenated xz streams of a file.

    `lzma.open` would silently stop at junk after the first stream or at a damaged second one.
    Streams may be followed by padding: zero bytes, in multiples of four, as the format defines.

    Args:
        packed: The compressed file.
    """

    def __init__(self, packed: BinaryIO) -> None:
        self.packed = packed
        self.stream = _new_stream()

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill part of the buffer and return the number of bytes; 0 at the end.

        Raises:
            EOFError: a stream is truncated.
            lzma.LZMAError: a stream is damaged, or followed by other data.
        """
        room = memoryview(buffer)
        while True:
            if self.stream.eof:
                more = self._next_stream_start()
                if not more:
                    return 0
                self.stream = _new_stream()
            else:
                more = self.packed.read(CHUNK) if self.stream.needs_input else b""
                if self.stream.needs_input and not more:
                    raise EOFError("the compressed file is truncated")
            if data := self.stream.decompress(more, len(room)):
                room[: len(data)] = data
                return len(data)

    def _next_stream_start(self) -> bytes:
        """Skip the padding after a stream and return the first bytes behind it; none at the end of
        the file.
        """
        padding = 0
        more = self.stream.unused_data or self.packed.read(CHUNK)
        while more and not more.strip(b"\0"):
            padding += len(more)
            more = self.packed.read(CHUNK)
        rest = more.lstrip(b"\0")
        if (padding + len(more) - len(rest)) % 4:
            raise lzma.LZMAError("the padding after a stream is not a multiple of four bytes")
        return rest


def _new_stream() -> lzma.LZMADecompressor:
    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)
