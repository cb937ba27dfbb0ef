"""Byte-level subword tokenizers: no text is unknown, and decode(encode(text)) == NFC(text)."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from dialog.data.tokenizers.text_sample import sample_evenly
from dialog.data.tokenizers.tokenizer import BYTES, SMALLEST_VOCABULARY, SPECIAL_TOKENS, UNK, Tokenizer
from dialog.data.tokenizers.unigram_training import train_pieces
from dialog.errors import UserError

BLOCK = 8192
"""Texts per batch when words are counted."""


def byte_bpe(texts: Iterable[str], *, vocabulary: int = 8000, sample: int = 1_000_000) -> Tokenizer:
    """Byte-level BPE: the most frequent pairs of symbols are merged (Sennrich et al. 2016; Radford et al. 2019).

    The same texts give the same tokenizer. Few texts give a smaller vocabulary: pairs that occur once are not merged.

    Args:
        texts: Training texts.
        vocabulary: Most tokens, including the special ones.
        sample: Most training texts; of more, an evenly spaced sample is used.

    Raises:
        UserError: `vocabulary` has no room for the special tokens and the 256 bytes.
    """
    _check_vocabulary(vocabulary)
    tokenizer = _byte_level(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sample_evenly(texts, sample), trainer)
    return Tokenizer(tokenizer.to_str(pretty=True))


def unigram(texts: Iterable[str], *, vocabulary: int = 8000, sample: int = 1_000_000) -> Tokenizer:
    """Byte-level unigram LM: the most probable segmentation of each word, with pieces trained by EM (Kudo 2018).

    The same texts give the same tokenizer. Few texts give a smaller vocabulary.

    Args:
        texts: Training texts.
        vocabulary: Most tokens, including the special ones.
        sample: Most training texts; of more, an evenly spaced sample is used.

    Raises:
        UserError: `vocabulary` has no room for the special tokens and the 256 bytes.
    """
    _check_vocabulary(vocabulary)
    pieces = train_pieces(_word_counts(sample_evenly(texts, sample)), vocabulary - len(SPECIAL_TOKENS))
    alphabet = {byte: char for char, byte in BYTES.items()}
    scores = {"".join(alphabet[byte] for byte in piece): round(score, 6) for piece, score in pieces.items()}
    ranked = sorted(scores.items(), key=lambda item: (-item[1], item[0]))
    model = models.Unigram([(token, 0.0) for token in SPECIAL_TOKENS] + ranked, unk_id=UNK)
    tokenizer = _byte_level(model)
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return Tokenizer(tokenizer.to_str(pretty=True))


def _check_vocabulary(vocabulary: int) -> None:
    if vocabulary < SMALLEST_VOCABULARY:
        raise UserError(
            f"a vocabulary of {vocabulary} is too small; give at least {SMALLEST_VOCABULARY}: "
            f"{len(SPECIAL_TOKENS)} special tokens and 256 bytes"
        )


def _byte_level(model: models.Model) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _word_counts(texts: list[str]) -> dict[bytes, int]:
    """Count the words that byte-level pre-tokenization yields."""
    tokenizer = _byte_level(models.WordLevel(unk_token=""))
    tokenizer.train_from_iterator(texts, trainers.WordLevelTrainer(vocab_size=2**32, show_progress=False))
    counts = np.zeros(tokenizer.get_vocab_size(), dtype=np.int64)
    for start in range(0, len(texts), BLOCK):
        for encoding in tokenizer.encode_batch_fast(texts[start : start + BLOCK]):
            np.add.at(counts, encoding.ids, 1)
    return {bytes(map(BYTES.__getitem__, word)): int(counts[number]) for word, number in tokenizer.get_vocab().items()}
