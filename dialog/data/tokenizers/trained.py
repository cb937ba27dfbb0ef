"""Tokenizers that are trained on text.

`byte_bpe` knows every text: decode(encode(text)) == NFC(text). To `word` and `characters`, tokens
that do not occur in the training texts are unknown.
"""

from __future__ import annotations

from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from dialog.data.tokenizers.tokenizer import SMALLEST_VOCABULARY, SPECIAL_TOKENS, UNK, Tokenizer
from dialog.errors import UserError

WORD = r"(?:[\p{L}\p{N}_][\p{M}\u200c\u200d]*)+|[^\p{L}\p{N}_\s\x1c-\x1f]\p{M}*|\n"
"""Letters with their combining marks and joiners, single other symbols with their marks, and line
ends.
"""
WORD_OF_RE = r"[\p{L}\p{N}_]+|[^\p{L}\p{N}_\s\x1c-\x1f]|\n"
r"""`\w+|[^\w\s]|\n` of Python's `re`, spelled out because marks match the `\w` of `tokenizers`."""
CHARACTER = r"[\s\S]"
UNLIMITED = 2**32


def sample_evenly(texts: Iterable[str], most: int) -> list[str]:
    """Return every k-th text, for the least k = 1, 2, 4, ... that gives at most `most` texts.

    It takes one pass and holds at most `most` texts: when there are more, every second one is
    discarded.

    Raises:
        UserError: `most` is not positive.
    """
    if most < 1:
        raise UserError(f"sample is {most}; give at least 1 text to train on")
    kept: list[str] = []
    step = 1
    for number, text in enumerate(texts):
        if number % step == 0 and len(kept) == most:
            kept = kept[::2]
            step = 2 * step
        if number % step == 0:
            kept.append(text)
    return kept


def byte_bpe(texts: Iterable[str], *, vocabulary: int = 8000, sample: int = 1_000_000) -> Tokenizer:
    """Byte-level BPE: the most frequent pairs of symbols are merged (Sennrich et al. 2016; Radford
    et al. 2019).

    The same texts give the same tokenizer. Few texts give a smaller vocabulary: pairs that occur
    once are not merged.

    Args:
        texts: Training texts.
        vocabulary: Most tokens, including the special ones.
        sample: Most training texts; of more, an evenly spaced sample is used.

    Raises:
        UserError: `vocabulary` has no room for the special tokens and the 256 bytes.
    """
    if vocabulary < SMALLEST_VOCABULARY:
        raise UserError(
            f"a vocabulary of {vocabulary} is too small; give at least {SMALLEST_VOCABULARY}: "
            f"{len(SPECIAL_TOKENS)} special tokens and 256 bytes"
        )
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sample_evenly(texts, sample), trainer)
    return Tokenizer(tokenizer.to_str(pretty=True))


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
