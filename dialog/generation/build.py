"""Build a search and its constraints from a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any
from unicodedata import normalize

import torch

from dialog.config.components import Component, build
from dialog.config.schema import GenerationConfig
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF, UNK, Tokenizer
from dialog.errors import UserError
from dialog.generation.banned_words import BannedWords
from dialog.generation.constraints import Constraints
from dialog.generation.required_words import RequiredWords
from dialog.generation.search import Search
from dialog.generation.searches.family import SEARCHES
from dialog.generation.searches.mmi import LoadReverse, ReverseScores
from dialog.generation.words.patterns import occurs, pattern

BANNED_TOKENS = (PAD, BOS, UNK, OTHER, SELF)
FindBanned = Callable[[Sequence[str]], BannedWords]
"""Return the tables of banned words for one tokenizer, on the device of the search."""


def not_loaded(folder: str) -> ReverseScores:
    """Return no scores: the search is only checked."""
    return lambda sources, responses: []


def build_search(
    component: Component,
    generation: GenerationConfig,
    tokenizer: Tokenizer | None = None,
    device: torch.device | str = "cpu",
    *,
    load_reverse: LoadReverse = not_loaded,
    empty_source: Sequence[int] = (EOS,),
    find_banned: FindBanned | None = None,
) -> Search:
    """Build a search that emits no special token; constraints in the component replace those of
    ``generation``.

    Without a tokenizer the words of constraints are only checked, not built in; by default no
    reverse model is loaded. ``find_banned`` returns the tables of banned words, which searches can
    share; by default they are built.

    Raises:
        UserError: unknown search or argument, or constraints that contradict each other.
    """
    if tokenizer is not None:
        check_width(component, len(tokenizer))
    limits = {
        item.name: getattr(generation, item.name)
        for item in fields(GenerationConfig)
        if item.name != "search"
    }
    own = {key: value for key, value in component.items() if key not in limits}
    limits |= {key: value for key, value in component.items() if key in limits}
    try:
        constraints = build_constraints(limits, tokenizer, find_banned).to(torch.device(device))
    except ValueError as error:
        raise UserError(f"{own.get('name')}: {error}") from error
    return build(
        SEARCHES, own, constraints=constraints, load_reverse=load_reverse, empty_source=empty_source
    )


def check_width(component: Component, vocabulary: int) -> None:
    """Raise UserError if a beam search of a component is wider than the vocabulary."""
    for search in (component, component.get("search")):
        width = search.get("width", 1) if isinstance(search, Mapping) else 1
        if isinstance(width, int) and width > vocabulary:
            raise UserError(
                f"{component['name']}: width is {width}; the vocabulary has {vocabulary} tokens"
            )


def build_constraints(
    limits: dict[str, Any], tokenizer: Tokenizer | None, find_banned: FindBanned | None = None
) -> Constraints:
    """Build constraints from the values of a recipe's ``generation`` section.

    Raises:
        ValueError: they contradict each other.
    """
    values = dict(limits)
    banned, required, prefix = (values.pop(key) for key in ("banned", "required", "prefix"))
    for word in (*banned, *required):
        pattern(word)
    for word in required:
        if contained := [ban for ban in banned if occurs(ban, word)]:
            raise ValueError(f"required word {word!r} contains the banned word {contained[0]!r}")
    if contained := [ban for ban in banned if occurs(ban, prefix)]:
        raise ValueError(f"prefix {prefix!r} contains the banned word {contained[0]!r}")
    if tokenizer is None:
        return Constraints(end=EOS, special=BANNED_TOKENS, **values)
    check_prefix(prefix, tokenizer)
    if banned:
        values["banned"] = (
            find_banned(banned) if find_banned else BannedWords.build(banned, tokenizer.pieces())
        )
    return Constraints(
        end=EOS,
        special=BANNED_TOKENS,
        **values,
        prefix=tokenizer.encode(prefix),
        required=required_words(required, tokenizer.pieces(), tokenizer) if required else None,
    )


def check_prefix(prefix: str, tokenizer: Tokenizer) -> None:
    """Raise ValueError for a prefix that the vocabulary cannot represent: the response would lack a
    part of it.
    """
    if UNK in tokenizer.encode(prefix):
        raise ValueError(f"prefix {prefix!r} has words that the vocabulary does not have")


def required_words(
    words: Sequence[str], pieces: Sequence[bytes], tokenizer: Tokenizer
) -> RequiredWords:
    """Build the required words; their usual tokens are those of each word at the start of a text
    and after a space.

    Each word is encoded as it is written, in lower case and with a capital.

    Raises:
        ValueError: too many words, or one that the vocabulary cannot represent.
    """
    usual: set[int] = set()
    after_space = len(tokenizer.encode("a"))
    for word in (normalize("NFC", word.strip()) for word in words):
        for spelling in (word, word.lower(), word[:1].upper() + word[1:]):
            for tokens in (
                tokenizer.encode(spelling),
                tokenizer.encode(f"a {spelling}")[after_space:],
            ):
                usual.update(tokens)
    return RequiredWords.build(
        [normalize("NFC", word) for word in words], pieces, sorted(usual - {UNK})
    )
