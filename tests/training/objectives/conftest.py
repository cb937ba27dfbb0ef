"""A small text, its tokenizer, and the ids of a row."""

from collections.abc import Callable
from pathlib import Path

import pytest
from torch import Tensor

from dialog.data.tokenizers import byte_bpe
from dialog.data.tokenizers.tokenizer import EOS, PAD, Tokenizer


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return byte_bpe(["Good morning , how are you ?", "Fine , and you ?"] * 3, vocabulary=280)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(
        "Good morning\n\nhow are you ?\n  \nFine , and you ? Naïve café\n", encoding="utf-8"
    )
    return path


@pytest.fixture(scope="session")
def words() -> Callable[[Tensor], list[int]]:
    """``words(row)``: the ids of a row ``ids </s>``, whose end and padding are checked."""

    def read(row: Tensor) -> list[int]:
        ids = row.tolist()
        end = ids.index(EOS)
        assert set(ids[end + 1 :]) <= {PAD}
        assert not {PAD, EOS} & set(ids[:end])
        return ids[:end]

    return read
