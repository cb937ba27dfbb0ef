"""A given `tokenizer.json`, its vocabulary moved up so that our special tokens have the ids 0 to 5."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tokenizers

from dialog.data.reading.files import require_file
from dialog.data.tokenizers.tokenizer import SPECIAL_TOKENS, UNK, Tokenizer, broken_as_user_error
from dialog.errors import UserError

WANTED = "data.tokenizer.path should name a tokenizer.json in the format of `tokenizers`"
LARGEST_FILE = 256 * 2**20
LARGEST_VOCABULARY = 2**20
PROBE = "Where is the café? 你好 <s> ##</w>\n"
APART = {
    "type": "Split",
    "pattern": {"Regex": "<(?=(?:" + "|".join(token.removeprefix("<") for token in SPECIAL_TOKENS) + "))"},
    "behavior": "Isolated",
    "invert": False,
}
"""The last pre-tokenizer: it takes the names of special tokens apart, so that no word that a model looks up is one."""

Json = dict[str, Any]


def file(*, path: str) -> Tokenizer:
    """A `tokenizer.json`: one of ours as it is; of any other the vocabulary moves up by 6, past our special tokens.

    Ordinary text gets the ids that the file gives it, and 6 more, from models of each kind that `tokenizers` has. What
    the file cannot write becomes our `<unk>`, also where its BPE would drop it. Its own added tokens are text like any
    other; its template, truncation, padding and BPE-dropout are taken off. Our special tokens keep their names: tokens
    of the file with such a name are renamed, and merges that spell one are left out.

    Args:
        path: Of the file.

    Raises:
        UserError: with the file: there is none, it is too large or broken, or its ids cannot be moved.
    """
    place = Path(path)
    require_file(place, WANTED)
    if place.stat().st_size > LARGEST_FILE:
        raise UserError(f"{path} has more than {LARGEST_FILE} bytes; {WANTED}")
    try:
        with broken_as_user_error(WANTED):
            text = place.read_text(encoding="utf-8")
            content = json.loads(tokenizers.Tokenizer.from_str(_without_gaps(text)).to_str())
            tokenizer = Tokenizer(text if _ours(content) else _moved(content))
            tokenizer.decode(tokenizer.encode(PROBE))
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    return tokenizer


def _without_gaps(text: str) -> str:
    """The file with a name for each id that no token has: the library lists them at length, however many they are."""
    content = json.loads(text)
    vocabulary = content["model"]["vocab"]
    if not vocabulary:
        raise UserError(f"it has no tokens; {WANTED}")
    if isinstance(vocabulary, dict):
        ids = set(vocabulary.values())
        if len(ids) < len(vocabulary):
            raise UserError(f"two of its tokens have one id; {WANTED}")
        if max(ids) >= LARGEST_VOCABULARY:
            raise UserError(f"it has the id {max(ids)}; ids of {LARGEST_VOCABULARY} and above cannot be read")
        content["model"]["vocab"] = {f"<no {each}>": each for each in {*range(max(ids))} - ids} | vocabulary
    return json.dumps(content)


def _ours(content: Json) -> bool:
    added = [(each["id"], each["content"]) for each in content["added_tokens"]]
    return added == list(enumerate(SPECIAL_TOKENS))


def _moved(content: Json) -> str:
    model = content["model"]
    _refuse_spelling(model)
    vocabulary = model["vocab"]
    if model["type"] == "Unigram":
        names = _renamed([token for token, _ in vocabulary])
        scores = [score for _, score in vocabulary]
        special = [(token, min(scores)) for token in SPECIAL_TOKENS]
        model |= {"vocab": special + list(zip(names, scores, strict=True)), "unk_id": UNK}
    else:
        names = _renamed(sorted(vocabulary, key=vocabulary.__getitem__))
        moved = {token: number for number, token in enumerate((*SPECIAL_TOKENS, *names))}
        model |= {"vocab": moved, "unk_token": SPECIAL_TOKENS[UNK]}
    if model["type"] == "BPE":
        model |= {"merges": list(_harmless(model)), "dropout": None}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    own = content["pre_tokenizer"]
    content |= {
        "added_tokens": [{"id": number, "content": token, **flags} for number, token in enumerate(SPECIAL_TOKENS)],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [own, APART] if own else [APART]},
        "post_processor": None,
        "truncation": None,
        "padding": None,
    }
    return json.dumps(content, ensure_ascii=False, indent=2)


def _renamed(names: list[str]) -> list[str]:
    """The names, but another one where a name is a special token's or comes again; the last one keeps it."""
    taken, seen = {*SPECIAL_TOKENS, *names}, {*SPECIAL_TOKENS}
    renamed = []
    for name in reversed(names):
        if name in seen:
            while name in taken:
                name = f"<given {name}>"
            taken.add(name)
        seen.add(name)
        renamed.append(name)
    return renamed[::-1]


def _harmless(model: Json) -> Iterator[list[str]]:
    """The merges of a BPE but for those to or from the name of a special token."""
    prefix = model["continuing_subword_prefix"] or ""
    for left, right in model["merges"]:
        if not {left, right, left + right[len(prefix) :]} & {*SPECIAL_TOKENS}:
            yield [left, right]


def _refuse_spelling(model: Json) -> None:
    """Refuse a model that adds to a part of a word what makes the name of a special token of it."""
    before, after = model.get("continuing_subword_prefix"), model.get("end_of_word_suffix")
    for token in SPECIAL_TOKENS:
        if (before and token.startswith(before)) or (after and token.endswith(after)):
            raise UserError(f"its prefix {before!r} or suffix {after!r} may spell {token}; {WANTED}")
