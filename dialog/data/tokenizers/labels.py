r"""Labels of tokens with some but not all bytes of a character, which `Tokenizer.label` writes as
`\xe4`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

ESCAPED_BYTE = re.compile(r"(\\x[0-9a-f]{2})")
SUBSCRIPTS = "₁₂₃₄"
"""Numbers of the parts of a character."""


class LabelPiece(NamedTuple):
    """An escaped byte of a label, or the text between such bytes."""

    token: int
    text: str

    @property
    def content(self) -> bytes:
        """The bytes of the token that it shows."""
        return (
            bytes.fromhex(self.text[2:])
            if ESCAPED_BYTE.fullmatch(self.text)
            else self.text.encode()
        )


class LabelRun(NamedTuple):
    """Text of a token; of the part of a character, the character and the number of the part."""

    token: int
    text: str
    part: int | None


def characters_of_parts(labels: Sequence[str]) -> dict[int, str]:
    """Return, for each token that has some but not all bytes of a character, that character."""
    return {run.token: run.text for run in _runs(labels) if run.part is not None}


def readable_labels(labels: Sequence[str]) -> list[str]:
    r"""Replace bytes by their character and the number of its part: `\xe4\xbd` and `\xa0` become
    你₁ and 你₂.

    Bytes that form no character with those of the next tokens stay.
    """
    readable = [""] * len(labels)
    for token, text, part in _runs(labels):
        readable[token] += text if part is None else text + SUBSCRIPTS[part]
    return readable


def whole_characters(labels: Sequence[str]) -> list[tuple[str, int, int]]:
    r"""Group adjacent tokens that have whole characters together: text, first token, end.

    `\xe4\xbd`, `\xa0` and 好 become 你 of two tokens, and 好 of one. Bytes that form no character
    stay.
    """
    runs = list(_runs(labels))
    continued = {run.token for run in runs if run.part}
    starts = [token for token in range(len(labels)) if token not in continued]
    groups = pairwise([*starts, len(labels)])
    texts = dict.fromkeys(range(len(labels)), "")
    for run in runs:
        texts[run.token] += "" if run.part else run.text
    return [
        ("".join(texts[token] for token in range(first, end)), first, end) for first, end in groups
    ]


def joined_labels(labels: Sequence[str]) -> str:
    """Return the text of tokens, with a space for each ▁."""
    return "".join(run.text for run in _runs(labels) if not run.part).replace("▁", " ")


def _runs(labels: Sequence[str]) -> Iterator[LabelRun]:
    pieces = _pieces(labels)
    parts = _parts(pieces)
    for (token, part), run in groupby(
        enumerate(pieces), lambda entry: (entry[1].token, parts.get(entry[0]))
    ):
        text = "".join(piece.text for _, piece in run)
        yield LabelRun(token, text, None) if part is None else LabelRun(token, *part)


def _pieces(labels: Sequence[str]) -> list[LabelPiece]:
    pieces: list[LabelPiece] = []
    for token, label in enumerate(labels):
        pieces += [LabelPiece(token, text) for text in ESCAPED_BYTE.split(label) if text]
    return pieces


def _parts(pieces: Sequence[LabelPiece]) -> dict[int, tuple[str, int]]:
    """Return, for each piece that is a byte of a character of several tokens, the character and the
    number of its part.

    The character is printable, as in a label.
    """
    parts: dict[int, tuple[str, int]] = {}
    for first in range(len(pieces)):
        for length in (2, 3, 4):
            run = pieces[first : first + length]
            content = b"".join(piece.content for piece in run)
            character = content.decode(errors="ignore")
            tokens = list(dict.fromkeys(piece.token for piece in run))
            if len(character) != 1 or character.encode() != content or len(tokens) == 1:
                continue
            shown = (
                character
                if character.isprintable()
                else character.encode("unicode_escape").decode()
            )
            parts |= {
                first + place: (shown, tokens.index(piece.token)) for place, piece in enumerate(run)
            }
    return parts
