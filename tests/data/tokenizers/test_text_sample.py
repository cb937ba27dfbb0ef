"""The sample of texts that a tokenizer is trained on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.tokenizers import byte_bpe
from dialog.data.tokenizers.trained import sample_evenly
from dialog.errors import UserError


@given(st.integers(0, 300), st.integers(1, 40))
def test_every_kth_text_for_the_least_power_of_two(count: int, most: int) -> None:
    texts = [str(number) for number in range(count)]
    kept = sample_evenly(iter(texts), most)
    step = next(2**power for power in range(20) if len(texts[:: 2**power]) <= most)
    assert kept == texts[::step]


def test_an_empty_sample_is_an_error() -> None:
    with pytest.raises(UserError, match="sample is 0; give at least 1"):
        sample_evenly([], 0)


def test_training_uses_only_the_sample() -> None:
    texts = ["zebra zebra", "parrot parrot"] * 4
    assert byte_bpe(texts, sample=4).fingerprint == byte_bpe(["zebra zebra"] * 4).fingerprint
    assert byte_bpe(texts, sample=4).fingerprint != byte_bpe(texts).fingerprint
