"""Bound how much longer a tokenizer makes a text: a file of a few lines can turn a character into
64^6.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

from dialog.errors import UserError

LARGEST_GROWTH = 2**16
"""Limit of the bytes that a byte may become.

Of the usual tokenizers, ALBERT's has the largest bound, about 3,000.
"""
GROWTH = {
    "NFC": 3.0, "NFD": 3.0, "NFKC": 11.0, "NFKD": 11.0, "Lowercase": 1.5,
    "BertNormalizer": 7.5,  # NFD, lower case, and spaces around Chinese characters
    "ByteLevel": 4.0,  # two bytes for a byte, and a space before each word
    "Metaspace": 5.0,  # a character of four bytes before each word
}  # fmt: skip
IDEMPOTENT = ("NFC", "NFD", "NFKC", "NFKD", "Lowercase")
"""Steps that do not change a text more when they are repeated, so each counts once."""
MEMBERS = ("normalizers", "pretokenizers", "decoders")
"""Keys of the members of a `Sequence`."""

Step = Mapping[str, Any]


def check_growth(content: Mapping[str, Any]) -> None:
    """Check the content of a `tokenizer.json`, before `tokenizers` reads it and normalizes its
    added tokens.

    Raises:
        UserError: the normalizer and pre-tokenizer, or the decoder, may exceed `LARGEST_GROWTH`.
    """
    for names in (("normalizer", "pre_tokenizer"), ("decoder",)):
        bound = prod(growth(content.get(name)) for name in names)
        if bound > LARGEST_GROWTH:
            raise UserError(
                f"its {' and '.join(names)} may make a text {bound:.3g} times as long, the limit is"
                f" {LARGEST_GROWTH:,}; remove steps such as Replace from it"
            )


def growth(step: Step | None) -> float:
    """Return an upper bound of the bytes that a byte of a text becomes in a step; members of a
    sequence multiply.
    """
    steps = list(_members(step))
    once = {step["type"]: _growth(step) for step in steps if step["type"] in IDEMPOTENT}
    return prod(once.values()) * prod(
        _growth(step) for step in steps if step["type"] not in IDEMPOTENT
    )


def _members(step: Step | None) -> Iterator[Step]:
    if step is None:
        return
    if step["type"] != "Sequence":
        yield step
        return
    for key in MEMBERS:
        for member in step.get(key, ()):
            yield from _members(member)


def _growth(step: Step) -> float:
    kind = step["type"]
    if kind == "Replace":
        pattern = step["pattern"]
        content = len(step["content"].encode())
        if pattern.get("String"):
            return max(1.0, content / len(pattern["String"].encode()))
        return 1.0 + content  # a regular expression may match between all characters
    if kind == "Prepend":
        return 1.0 + len(step["prepend"].encode())
    if kind == "Precompiled":
        return float(_longest_replacement(step["precompiled_charsmap"]))
    return GROWTH.get(kind, 1.0)


def _longest_replacement(charsmap: str) -> int:
    """Return the bytes of the longest text in a map of SentencePiece: size of a trie, trie, texts
    that end in 0.
    """
    content = base64.b64decode(charsmap)
    texts = content[4 + int.from_bytes(content[:4], "little") :]
    return max(1, *map(len, texts.split(b"\0"))) if texts else 1
