"""Tokenizers of whole words and of single characters: what training has not shown is unknown."""

from __future__ import annotations

from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from dialog.data.tokenizers.sample import evenly
from dialog.data.tokenizers.tokenizer import SPECIAL_TOKENS, UNK, Tokenizer
from dialog.errors import UserError

WORD = r"[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s\x1c-\x1f]|\n"
r"""`\w+|[^\w\s]|\n` as Python's `re` reads it; to the library's own `\w` accents are letters."""
CHARACTER = r"[\s\S]"
ALL = 2**32
"""More than there are words."""


def word(
    texts: Iterable[str],
    *,
    vocabulary: int | None = None,
    min_frequency: int = 1,
    lower: bool = False,
    sample: int = 1_000_000,
) -> Tokenizer:
    r"""Words, single other signs and line ends, as ParlAI's `re` splits them: `\w+|[^\w\s]|\n`.

    Decoding joins the tokens by spaces: white space, and case where `lower`, are lost, and so are unknown words.

    Args:
        texts: What to learn from.
        vocabulary: The most tokens, special ones included: the words seen most often, of equal ones the first in the
            order of code points. None keeps all.
        min_frequency: How often a word must be seen.
        lower: Whether text is lower-cased.
        sample: The most texts to learn from; of more, so many are taken that lie evenly spread.

    Raises:
        UserError: a number out of range.
    """
    steps = [normalizers.NFC(), normalizers.Lowercase()] if lower else [normalizers.NFC()]
    tokenizer = _split_by(WORD, "removed", normalizers.Sequence(steps))
    return _learned(tokenizer, evenly(texts, sample), vocabulary=vocabulary, min_frequency=min_frequency)


def characters(
    texts: Iterable[str], *, vocabulary: int | None = None, min_frequency: int = 1, sample: int = 1_000_000
) -> Tokenizer:
    """Characters, one token each: decode(encode(text)) == NFC(text) but for characters that are unknown.

    Args:
        texts: What to learn from.
        vocabulary: The most tokens, special ones included: the characters seen most often, of equal ones the first in
            the order of code points. None keeps all.
        min_frequency: How often a character must be seen.
        sample: The most texts to learn from; of more, so many are taken that lie evenly spread.

    Raises:
        UserError: a number out of range.
    """
    tokenizer = _split_by(CHARACTER, "isolated", normalizers.NFC())
    tokenizer.decoder = decoders.Fuse()
    return _learned(tokenizer, evenly(texts, sample), vocabulary=vocabulary, min_frequency=min_frequency)


def _split_by(pattern: str, rest: str, normalizer: normalizers.Normalizer) -> tokenizers.Tokenizer:
    """A tokenizer whose tokens are what the pattern matches."""
    tokenizer = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKENS[UNK]))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex(pattern), behavior=rest, invert=True)
    return tokenizer


def _learned(
    tokenizer: tokenizers.Tokenizer, texts: list[str], *, vocabulary: int | None, min_frequency: int
) -> Tokenizer:
    if vocabulary is not None and vocabulary <= len(SPECIAL_TOKENS):
        raise UserError(
            f"a vocabulary of {vocabulary} is too small; give more than its {len(SPECIAL_TOKENS)} special tokens"
        )
    if min_frequency < 1:
        raise UserError(f"min_frequency is {min_frequency}; give at least 1")
    trainer = trainers.WordLevelTrainer(
        vocab_size=ALL if vocabulary is None else vocabulary,
        min_frequency=min_frequency,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return Tokenizer(tokenizer.to_str(pretty=True))
