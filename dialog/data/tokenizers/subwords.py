"""Byte-level subword tokenizer: no text is unknown, and decode(encode(text)) == NFC(text)."""

from __future__ import annotations

from collections.abc import Iterable

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from dialog.data.tokenizers.text_sample import sample_evenly
from dialog.data.tokenizers.tokenizer import SMALLEST_VOCABULARY, SPECIAL_TOKENS, Tokenizer
from dialog.errors import UserError


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
