"""Word and character tokenizers: tokens that do not occur in the training texts are unknown."""

from __future__ import annotations

from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from dialog.data.tokenizers.text_sample import sample_evenly
from dialog.data.tokenizers.tokenizer import SPECIAL_TOKENS, UNK, Tokenizer
from dialog.errors import UserError

WORD = r"(?:[\p{L}\p{N}_][\p{M}\u200c\u200d]*)+|[^\p{L}\p{N}_\s\x1c-\x1f]\p{M}*|\n"
"""Letters with their combining marks and joiners, single other symbols with their marks, and line
ends.
"""
WORD_OF_RE = r"[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s\x1c-\x1f]|\n"
r"""`\w+|[^\w\s]|\n` of Python's `re`, spelled out because marks match the `\w` of `tokenizers`."""
CHARACTER = r"[\s\S]"
UNLIMITED = 2**32


def word(
    texts: Iterable[str],
    *,
    vocabulary: int | None = None,
    min_frequency: int = 1,
    lower: bool = False,
    join_marks: bool = True,
    sample: int = 1_000_000,
) -> Tokenizer:
    r"""Words, single other symbols and line ends, split as by ParlAI's `re` tokenizer:
    `\w+|[^\w\s]|\n`.

    Unlike there, a combining mark (a vowel sign of Hindi, Thai or Arabic, an accent) belongs to the
    character before it. Decoding joins tokens by spaces. It loses white space, unknown words and,
    with `lower`, case. Languages without spaces between words need another tokenizer.

    Args:
        texts: Training texts.
        vocabulary: Most tokens, including the special ones: the most frequent words, ties broken by
            code points. None keeps all.
        min_frequency: Fewest occurrences of a word.
        lower: Whether to lower-case the text.
        join_marks: Whether combining marks belong to the character before; false makes each a
            token, as Python's `re`.
        sample: Most training texts; of more, an evenly spaced sample is used.

    Raises:
        UserError: a number is out of range.
    """
    steps = [normalizers.NFC(), normalizers.Lowercase()] if lower else [normalizers.NFC()]
    tokenizer = _split_by(
        WORD if join_marks else WORD_OF_RE, "removed", normalizers.Sequence(steps)
    )
    return _trained(
        tokenizer, sample_evenly(texts, sample), vocabulary=vocabulary, min_frequency=min_frequency
    )


def characters(
    texts: Iterable[str],
    *,
    vocabulary: int | None = None,
    min_frequency: int = 1,
    sample: int = 1_000_000,
) -> Tokenizer:
    """One token per character: decode(encode(text)) == NFC(text) up to unknown characters.

    Args:
        texts: Training texts.
        vocabulary: Most tokens, including the special ones: the most frequent characters, ties
            broken by code points. None keeps all.
        min_frequency: Fewest occurrences of a character.
        sample: Most training texts; of more, an evenly spaced sample is used.

    Raises:
        UserError: a number is out of range.
    """
    tokenizer = _split_by(CHARACTER, "isolated", normalizers.NFC())
    tokenizer.decoder = decoders.Fuse()
    return _trained(
        tokenizer, sample_evenly(texts, sample), vocabulary=vocabulary, min_frequency=min_frequency
    )


def _split_by(pattern: str, rest: str, normalizer: normalizers.Normalizer) -> tokenizers.Tokenizer:
    """Return an untrained tokenizer whose tokens are the matches of a pattern."""
    tokenizer = tokenizers.Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKENS[UNK]))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Split(
        tokenizers.Regex(pattern), behavior=rest, invert=True
    )
    return tokenizer


def _trained(
    tokenizer: tokenizers.Tokenizer, texts: list[str], *, vocabulary: int | None, min_frequency: int
) -> Tokenizer:
    if vocabulary is not None and vocabulary <= len(SPECIAL_TOKENS):
        raise UserError(
            f"a vocabulary of {vocabulary} is too small; give more than its {len(SPECIAL_TOKENS)}"
            " special tokens"
        )
    if min_frequency < 1:
        raise UserError(f"min_frequency is {min_frequency}; give at least 1")
    trainer = trainers.WordLevelTrainer(
        vocab_size=UNLIMITED if vocabulary is None else vocabulary,
        min_frequency=min_frequency,
        special_tokens=list(SPECIAL_TOKENS),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return Tokenizer(tokenizer.to_str(pretty=True))
