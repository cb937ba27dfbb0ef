"""Conversion between text and token ids, built on `tokenizers`; the only definition of the special
tokens.
"""

from __future__ import annotations

import hashlib
import json as json_text
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from unicodedata import normalize

import tokenizers

from dialog.atomic import write_json, write_text
from dialog.data.tokenizers.growth import check_growth
from dialog.errors import UserError, is_panic

PAD, BOS, EOS, UNK, OTHER, SELF = range(6)
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>", "<other>", "<self>")
TRANSFORMERS_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "split_special_tokens": True,
    "clean_up_tokenization_spaces": False,
    **dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), SPECIAL_TOKENS, strict=False)),
    "extra_special_tokens": [SPECIAL_TOKENS[OTHER], SPECIAL_TOKENS[SELF]],
}
SMALLEST_VOCABULARY = len(SPECIAL_TOKENS) + 256
UNPRINTABLE = (*range(33), *range(127, 161), 173)
"""Bytes that the byte-level alphabet writes as U+0100, U+0101, ..., in this order."""
BYTES = {chr(byte): byte for byte in range(256) if byte not in UNPRINTABLE} | {
    chr(256 + number): byte for number, byte in enumerate(UNPRINTABLE)
}
"""Map each character of the byte-level alphabet to its byte."""


class Tokenizer:
    """Tokenizer of any kind, defined by its `tokenizer.json`.

    No text is encoded as a special token; roles and ends are added by id. Only text that the
    vocabulary cannot represent becomes `UNK`.

    Args:
        json: Content of a `tokenizer.json` in the format of `tokenizers`, with the special tokens
            as ids 0 to 5.

    Raises:
        UserError: `json` is not such a tokenizer, or may make texts too long (`check_growth`);
            later, a text that cannot be encoded.
    """

    def __init__(self, json: str) -> None:
        with library_errors_as_user_errors("prepare the data again"):
            check_growth(json_text.loads(json))
            self._tokenizer = tokenizers.Tokenizer.from_str(json)
        if tuple(map(self._tokenizer.id_to_token, range(len(SPECIAL_TOKENS)))) != SPECIAL_TOKENS:
            raise UserError(
                f"the tokenizer lacks {' '.join(SPECIAL_TOKENS)} as ids 0 to 5; prepare the data"
                " again"
            )
        self._tokenizer.encode_special_tokens = True  # not part of the JSON
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        decoder = self._tokenizer.decoder
        self._bytes = decoder is not None and b'"type":"ByteLevel"' in decoder.__getstate__()
        self.json = json

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Load a `tokenizer.json`.

        Raises:
            UserError: with the path; the file is missing or invalid.
        """
        try:
            return cls(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(
                f"{path}: the tokenizer cannot be read ({error}); prepare the data again"
            ) from error
        except UserError as error:
            raise UserError(f"{path}: {error}") from error

    def save(self, path: Path) -> None:
        """Write a `tokenizer.json`, and beside it a `tokenizer_config.json` for transformers'
        `AutoTokenizer`.

        `AutoTokenizer.from_pretrained(folder)` then gives the same ids. The file alone cannot mark
        `</s>` in a text as text: `tokenizers` needs `encode_special_tokens = True`, and
        PreTrainedTokenizerFast(tokenizer_file=...) needs `split_special_tokens=True`.
        """
        write_text(path, self.json)
        write_json(path.with_name("tokenizer_config.json"), TRANSFORMERS_CONFIG)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the saved file."""
        return hashlib.sha256(self.json.encode()).hexdigest()

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[str]]:
        return Tokenizer, (self.json,)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without special tokens."""
        return list(self._encoding(text).ids)

    def encode_words(self, text: str) -> list[tuple[int, ...]]:
        """Return `encode(text)` grouped by the words of the pre-tokenizer."""
        encoding = self._encoding(text)
        pairs = zip(encoding.word_ids, encoding.ids, strict=True)
        return [
            tuple(token for _, token in word)
            for _, word in groupby(pairs, key=lambda pair: pair[0])
        ]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Return `encode` of each text, computed on all cores without Python's lock."""
        with text_errors_as_user_errors(texts):
            encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return the span [start, end) of characters of `text` for each token of `encode(text)`.

        Spans exclude white space around a word, except for tokens of white space alone. Tokens that
        share a character (the bytes of an emoji) all include it. A character that NFC combines with
        the one before (an accent) belongs to the span of that one.
        """
        spans = self._encoding(text).offsets
        tiled = []
        start_after = following = len(text)
        for start, end in reversed(spans):
            if start < start_after:
                start_after, following = start, start_after
            tiled.append((start, max(end, following)))
        return [_without_space(text, span) for span in reversed(tiled)]

    def unknown_bytes(self, text: str, ids: Sequence[int]) -> int:
        """Return the UTF-8 bytes of the text that `ids`, the tokens of `text`, replace by `UNK`."""
        unknown, _ = self._split_unknown(text, ids)
        return len(unknown.encode())

    def is_lossless(self, text: str, ids: Sequence[int]) -> bool:
        """Return whether `ids`, the tokens of `text`, decode to its NFC form, except for what
        became `UNK`.
        """
        _, represented = self._split_unknown(text, ids)
        return self.decode(ids) == normalize("NFC", represented)

    def _split_unknown(self, text: str, ids: Sequence[int]) -> tuple[str, str]:
        """Return the characters of a text that became `UNK`, and the others."""
        if UNK not in ids:
            return "", text
        spans = [span for token, span in zip(ids, self.offsets(text), strict=True) if token == UNK]
        positions = {position for start, end in spans for position in range(start, end)}
        sides = (
            [text[at] for at in range(len(text)) if (at in positions) is unknown]
            for unknown in (True, False)
        )
        unknown, represented = map("".join, sides)
        return unknown, represented

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids without special tokens (`UNK` included); invalid UTF-8
        becomes U+FFFD.
        """
        with text_errors_as_user_errors():
            return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def _encoding(self, text: str) -> tokenizers.Encoding:
        with text_errors_as_user_errors([text]):
            return self._tokenizer.encode(text, add_special_tokens=False)

    def pieces(self) -> list[bytes]:
        """Return the UTF-8 bytes that each token adds to a text; none for special tokens."""
        names = [self._tokenizer.id_to_token(token) or "" for token in range(len(self))]
        if self._bytes:
            text = [bytes(BYTES[char] for char in piece if char in BYTES) for piece in names]
        else:  # a token may add a space to the one before, so each follows another one
            before = len(self.decode([len(self) - 1]))
            text = [
                self.decode([len(self) - 1, token])[before:].encode() for token in range(len(self))
            ]
        return [b""] * len(SPECIAL_TOKENS) + text[len(SPECIAL_TOKENS) :]

    def label(self, token: int) -> str:
        r"""Return a printable form of a token: "▁" for a space, `\n` and `\xe6` for unprintable
        content.

        Raises:
            ValueError: the id is out of range.
        """
        piece = self._tokenizer.id_to_token(token)
        if piece is None:
            raise ValueError(f"no token has the id {token}; the vocabulary has {len(self)}")
        if self._bytes and token > SELF and all(char in BYTES for char in piece):
            piece = bytes(map(BYTES.__getitem__, piece)).decode("utf-8", errors="backslashreplace")
        shown = piece.replace(" ", "▁")
        return "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown
        )


@contextmanager
def library_errors_as_user_errors(hint: str) -> Iterator[None]:
    """Re-raise errors of `tokenizers` as a UserError of one line that ends with `hint`."""
    try:
        yield
    except UserError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"the tokenizer cannot be read ({reason}); {hint}") from error


@contextmanager
def text_errors_as_user_errors(texts: Sequence[str] = ()) -> Iterator[None]:
    """Re-raise a panic of `tokenizers`, and its `TypeError` for half a character in one of the
    texts, as UserError.
    """
    try:
        yield
    except TypeError as error:
        for text in texts:
            if isinstance(text, str):
                _check_whole_characters(text)
        raise error
    except BaseException as error:
        if not is_panic(error):
            raise
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"the tokenizer fails on a text ({reason}); simplify the regular expressions of its"
            " tokenizer.json"
        ) from error


def _check_whole_characters(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        surrogate = f"\\u{ord(text[error.start]):04x}"
        message = (
            f"character {error.start + 1} of a text is half a character ({surrogate}); write both"
            " surrogates"
        )
        raise UserError(message) from error


def _without_space(text: str, span: tuple[int, int]) -> tuple[int, int]:
    start, end = span
    word = text[start:end].lstrip()
    return (end - len(word), end - len(word) + len(word.rstrip())) if word else span


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
