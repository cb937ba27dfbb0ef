"""Text to token ids and back, built on `tokenizers`.

The special tokens of the house are defined here and nowhere else. How tokenizers are made: `dialog.data.tokenizers`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import tokenizers

from dialog.atomic import write_text
from dialog.errors import UserError

PAD, BOS, EOS, UNK, OTHER, SELF = range(6)
SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>", "<other>", "<self>")
SMALLEST_VOCABULARY = len(SPECIAL_TOKENS) + 256
UNPRINTABLE = (*range(33), *range(127, 161), 173)
"""The bytes that the byte-level alphabet writes as other characters: in order, those from U+0100 on."""
BYTES = {chr(byte): byte for byte in range(256) if byte not in UNPRINTABLE} | {
    chr(256 + place): byte for place, byte in enumerate(UNPRINTABLE)
}
"""The byte that each character of the byte-level alphabet stands for."""


class Tokenizer:
    """A tokenizer of any kind, as its file says.

    Text never becomes a special token, whatever it holds: roles and ends are added by id. Only what the vocabulary
    cannot write becomes `UNK`.

    Args:
        json: What `tokenizer.json` holds, in the format of `tokenizers`, with the special tokens as ids 0 to 5.

    Raises:
        UserError: `json` is not such a tokenizer.
    """

    def __init__(self, json: str) -> None:
        with broken_as_user_error("prepare the data again"):
            self._tokenizer = tokenizers.Tokenizer.from_str(json)
        if tuple(map(self._tokenizer.id_to_token, range(len(SPECIAL_TOKENS)))) != SPECIAL_TOKENS:
            raise UserError(f"the tokenizer lacks {' '.join(SPECIAL_TOKENS)} as ids 0 to 5; prepare the data again")
        self._tokenizer.encode_special_tokens = True  # not part of the JSON
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self._bytes = '"type":"ByteLevel"' in _state(self._tokenizer.decoder)
        self.json = json

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Read a `tokenizer.json`.

        Raises:
            UserError: with the file, when there is none or it is broken.
        """
        try:
            return cls(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: the tokenizer cannot be read ({error}); prepare the data again") from error
        except UserError as error:
            raise UserError(f"{path}: {error}") from error

    def save(self, path: Path) -> None:
        """Write a `tokenizer.json` that `tokenizers` and transformers' PreTrainedTokenizerFast open.

        Text is text here, never a special token; there it is with `encode_special_tokens = True`, and
        `split_special_tokens=True`: ids are then the same.
        """
        write_text(path, self.json)

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the saved file."""
        return hashlib.sha256(self.json.encode()).hexdigest()

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def __reduce__(self) -> tuple[type[Tokenizer], tuple[str]]:
        return Tokenizer, (self.json,)

    def encode(self, text: str) -> list[int]:
        """Token ids of a text, none of them special."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def words(self, text: str) -> list[tuple[int, ...]]:
        """`encode(text)` in the pieces of text that the model splits apart from one another."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        pairs = zip(encoding.word_ids, encoding.ids, strict=True)
        return [tuple(token for _, token in word) for _, word in groupby(pairs, key=lambda pair: pair[0])]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of each text, on all cores."""
        return [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """The characters [start:end] of `text` for each token of `encode(text)`.

        White space around a word is not of its span, whether its token holds it or not; a token of nothing but white
        space keeps its span. Tokens that share a character (the bytes of an emoji) all have it in their spans.
        Characters that NFC joins to the one before (an accent) belong to the span of that one.
        """
        spans = self._tokenizer.encode(text, add_special_tokens=False).offsets
        tiled = []
        start_after = following = len(text)
        for start, end in reversed(spans):
            if start < start_after:
                start_after, following = start, start_after
            tiled.append((start, max(end, following)))
        return [_without_space(text, span) for span in reversed(tiled)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of token ids, special ones left out (`UNK` too); bytes that are no UTF-8 become U+FFFD."""
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))

    def label(self, token: int) -> str:
        r"""A token for the eye: "▁" for a space, `\n` and `\xe6` for what cannot be shown.

        Raises:
            ValueError: no such id.
        """
        piece = self._tokenizer.id_to_token(token)
        if piece is None:
            raise ValueError(f"no token has the id {token}; the vocabulary has {len(self)}")
        if self._bytes and token > SELF and all(char in BYTES for char in piece):
            piece = bytes(map(BYTES.__getitem__, piece)).decode("utf-8", errors="backslashreplace")
        shown = piece.replace(" ", "▁")
        return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown)


@contextmanager
def broken_as_user_error(hint: str) -> Iterator[None]:
    """What the library raises for a broken tokenizer becomes a UserError of one line that ends with `hint`."""
    try:
        yield
    except (UserError, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # the library raises Exception itself; where it panics, not even that
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"the tokenizer cannot be read ({reason}); {hint}") from error


def _state(part: tokenizers.decoders.Decoder | None) -> str:
    """The JSON of a part of a tokenizer."""
    return "" if part is None else str(part.__getstate__(), "utf-8")


def _without_space(text: str, span: tuple[int, int]) -> tuple[int, int]:
    start, end = span
    word = text[start:end].lstrip()
    return (end - len(word), end - len(word) + len(word.rstrip())) if word else span
