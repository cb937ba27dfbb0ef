"""Tokenizer files of the user: their ids are shifted so that our special tokens get the ids 0
to 5.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers

from dialog.data.reading.files import require_file
from dialog.data.tokenizers.growth import check_growth
from dialog.data.tokenizers.tokenizer import (
    SPECIAL_TOKENS,
    UNK,
    Tokenizer,
    library_errors_as_user_errors,
)
from dialog.errors import UserError

WANTED = "data.tokenizer.path should name a tokenizer.json in the format of `tokenizers`"
LARGEST_FILE = 256 * 2**20
LARGEST_VOCABULARY = 2**20
PROBE = "Where is the café? 你好 <s> ##</w>\n"
ISOLATE_SPECIAL = {
    "type": "Split",
    "pattern": {
        "Regex": "<(?=(?:" + "|".join(token.removeprefix("<") for token in SPECIAL_TOKENS) + "))"
    },
    "behavior": "Isolated",
    "invert": False,
}
"""Last pre-tokenizer: it splits the names of special tokens, so that the model never sees one as a
word.
"""

Json = dict[str, Any]


def file(*, path: str) -> Tokenizer:
    """Load a `tokenizer.json`: one of this package unchanged, any other with its ids shifted by 6.

    The shift makes room for the special tokens: ordinary text gets the ids of the file plus 6, for
    every model type of `tokenizers`. Text that the file cannot represent becomes `<unk>`, even if
    its BPE would drop it. Its added tokens are ordinary text; its template, truncation, padding and
    BPE-dropout are removed. Tokens with the name of a special token are renamed, and merges that
    produce one are removed.

    Args:
        path: Path of the file.

    Raises:
        UserError: with the path; the file is missing, too large or invalid, or its ids cannot be
            shifted.
    """
    source = Path(path)
    require_file(source, WANTED)
    if source.stat().st_size > LARGEST_FILE:
        raise UserError(f"{path} has more than {LARGEST_FILE:,} bytes; {WANTED}")
    try:
        with library_errors_as_user_errors(WANTED):
            text = source.read_text(encoding="utf-8")
            content = json.loads(tokenizers.Tokenizer.from_str(_fill_gaps(text)).to_str())
            tokenizer = Tokenizer(text if _is_ours(content) else _shifted(content))
            tokenizer.decode(tokenizer.encode(PROBE))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return tokenizer


def _fill_gaps(text: str) -> str:
    """Name each id without a token; otherwise `tokenizers` prints all of them.

    Check ids and growth.
    """
    content = json.loads(text)
    check_growth(content)
    vocabulary = content["model"]["vocab"]
    if not vocabulary:
        raise UserError(f"the vocabulary is empty; {WANTED}")
    if isinstance(vocabulary, dict):
        ids = set(vocabulary.values())
        if len(ids) < len(vocabulary):
            raise UserError(f"two tokens have the same id; {WANTED}")
        if max(ids) >= LARGEST_VOCABULARY:
            raise UserError(f"the id {max(ids)} is not below {LARGEST_VOCABULARY}; {WANTED}")
        content["model"]["vocab"] = {
            f"<no {id}>": id for id in {*range(max(ids))} - ids
        } | vocabulary
    return json.dumps(content)


def _is_ours(content: Json) -> bool:
    added = [(token["id"], token["content"]) for token in content["added_tokens"]]
    return added == list(enumerate(SPECIAL_TOKENS))


def _shifted(content: Json) -> str:
    model = content["model"]
    _check_affixes(model)
    vocabulary = model["vocab"]
    if model["type"] == "Unigram":
        names = _renamed([token for token, _ in vocabulary])
        scores = [score for _, score in vocabulary]
        special = [(token, min(scores)) for token in SPECIAL_TOKENS]
        model |= {"vocab": special + list(zip(names, scores, strict=True)), "unk_id": UNK}
    else:
        names = _renamed(sorted(vocabulary, key=vocabulary.__getitem__))
        shifted = {token: number for number, token in enumerate((*SPECIAL_TOKENS, *names))}
        model |= {"vocab": shifted, "unk_token": SPECIAL_TOKENS[UNK]}
    if model["type"] == "BPE":
        model |= {"merges": list(_safe_merges(model)), "dropout": None}
    flags = {
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    first = [content["pre_tokenizer"]] if content["pre_tokenizer"] else []
    content |= {
        "added_tokens": [
            {"id": number, "content": token, **flags} for number, token in enumerate(SPECIAL_TOKENS)
        ],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*first, ISOLATE_SPECIAL]},
        "post_processor": None,
        "truncation": None,
        "padding": None,
    }
    return json.dumps(content, ensure_ascii=False, indent=2)


def _renamed(names: list[str]) -> list[str]:
    """Rename tokens that have the name of a special token, and all but the last of tokens with
    equal names.
    """
    taken = {*SPECIAL_TOKENS, *names}
    seen = {*SPECIAL_TOKENS}
    renamed = []
    for name in reversed(names):
        if name in seen:
            while name in taken:
                name = f"<given {name}>"
            taken.add(name)
        seen.add(name)
        renamed.append(name)
    return renamed[::-1]


def _safe_merges(model: Json) -> Iterator[list[str]]:
    """Yield the merges of a BPE that neither use nor produce the name of a special token."""
    prefix = model["continuing_subword_prefix"] or ""
    for left, right in model["merges"]:
        if not {left, right, left + right[len(prefix) :]} & {*SPECIAL_TOKENS}:
            yield [left, right]


def _check_affixes(model: Json) -> None:
    """Raise a UserError if a subword prefix or word suffix could complete the name of a special
    token.
    """
    before = model.get("continuing_subword_prefix")
    after = model.get("end_of_word_suffix")
    for token in SPECIAL_TOKENS:
        if (before and token.startswith(before)) or (after and token.endswith(after)):
            raise UserError(
                f"its prefix {before!r} or suffix {after!r} may produce {token}; {WANTED}"
            )
