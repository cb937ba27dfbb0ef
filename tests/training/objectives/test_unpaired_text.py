"""Utterances are drawn evenly from a text, truncated, and read only from a valid file."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import UserError
from dialog.training import objectives
from dialog.training.objectives import Utterances

Words = Callable[[Tensor], list[int]]


def test_utterances_are_drawn_evenly(text: Path, tokenizer: Tokenizer, words: Words) -> None:
    utterances = Utterances(text, tokenizer, max_tokens=64)
    assert len(utterances) == 3
    torch.manual_seed(1)
    drawn = [tokenizer.decode(words(row)) for row in utterances.draw(3000)]
    lines = [line for line in text.read_text(encoding="utf-8").splitlines() if line.strip()]
    assert [drawn.count(line) / 3000 for line in lines] == pytest.approx([1 / 3] * 3, abs=0.03)


def test_ranks_draw_different_utterances(
    text: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They draw the same random numbers."""
    utterances = Utterances(text, tokenizer, max_tokens=64)
    monkeypatch.setattr(objectives, "world_size", lambda: 3)
    drawn = []
    for rank in range(3):
        monkeypatch.setattr(objectives, "rank", lambda rank=rank: rank)
        torch.manual_seed(1)
        drawn.append(tokenizer.decode(utterances.draw(1)[0].tolist()))
    assert len(set(drawn)) == 3


def test_long_utterances_are_truncated(text: Path, tokenizer: Tokenizer, words: Words) -> None:
    torch.manual_seed(1)
    drawn = Utterances(text, tokenizer, max_tokens=4).draw(50)
    assert drawn.shape[1] == 4
    for row in drawn:
        assert any(
            line.startswith(tokenizer.decode(words(row)))
            for line in text.read_text("utf-8").splitlines()
        )


@pytest.mark.parametrize(
    ("create", "message"),
    [
        (os.mkfifo, "is not a regular file"),
        (Path.mkdir, "is not a regular file"),
        (lambda _: None, "does not exist"),
        (lambda path: path.write_bytes(b"a\xff\n"), "cannot be read"),
        (lambda path: path.write_bytes(b""), "is empty"),
        (lambda path: path.write_bytes(b"\n \n"), "is empty"),
    ],
)
def test_an_unsuitable_text_is_an_error_with_its_path(
    tmp_path: Path, tokenizer: Tokenizer, create: Callable[[Path], object], message: str
) -> None:
    create(tmp_path / "text")
    with pytest.raises(UserError, match=rf"^{tmp_path}/text\b.*{message}"):
        Utterances(tmp_path / "text", tokenizer, max_tokens=4)
