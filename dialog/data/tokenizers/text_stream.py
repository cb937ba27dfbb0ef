"""Text of tokens that arrive one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dialog.data.tokenizers.tokenizer import Tokenizer

INCOMPLETE = "\ufffd"
"""Decoded from the first bytes of a character whose other bytes are missing."""


class TextStream:
    """Passes on each new piece of the text of a growing sequence of tokens; the pieces together are
    a prefix of it.

    A character whose bytes are split across tokens is passed on once it is complete. Text that
    differs from what has been passed on, as some decoders rewrite the last word, is held back.

    Args:
        tokenizer: Decodes the tokens.
        emit: Receives the pieces.
    """

    def __init__(self, tokenizer: Tokenizer, emit: Callable[[str], None]) -> None:
        self._tokenizer = tokenizer
        self._emit = emit
        self.text = ""

    def __call__(self, tokens: Sequence[int]) -> None:
        """Pass on the text that the tokens so far add."""
        self.advance(self._tokenizer.decode(tokens).rstrip(INCOMPLETE))

    def advance(self, text: str) -> None:
        """Pass on what a text adds."""
        if text.startswith(self.text) and text != self.text:
            piece = text[len(self.text) :]
            self.text = text
            self._emit(piece)
