"""Small networks and batches for what is computed in training."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from dialog.data.batching import Batch, collate
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF
from dialog.models.seq2seq import Seq2Seq

VOCABULARY = 23
ENCODERS: dict[str, dict[str, Any]] = {
    "lstm": {"name": "lstm", "size": 8},
    "transformer": {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 1},
}
DECODERS: dict[str, dict[str, Any]] = {
    "lstm": {"name": "lstm", "size": 8, "attention": {"name": "additive", "size": 6}},
    "lstm_luong": {"name": "lstm_luong", "size": 8, "attention": {"name": "bilinear"}, "input_feeding": False},
    "transformer": {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 2},
}


@pytest.fixture
def network() -> Callable[..., Seq2Seq]:
    """``network(decoder, **options)``: in float64, with parameters that are far from 0."""

    def build(
        decoder: str = "transformer",
        encoder: str = "lstm",
        vocabulary: int = VOCABULARY,
        **options: Any,  # noqa: ANN401 - Seq2Seq's
    ) -> Seq2Seq:
        torch.manual_seed(5)
        parts = {"encoder": ENCODERS[encoder], "decoder": DECODERS[decoder]}
        made = Seq2Seq(vocabulary, padding=PAD, embedding_size=8, turn_tokens=(OTHER, SELF), **parts, **options)
        with torch.no_grad():
            for parameter in made.double().parameters():
                parameter.copy_(0.5 * torch.randn_like(parameter))
        return made

    return build


@pytest.fixture
def batch() -> Callable[..., Batch]:
    """``batch(rows, longest)``: random dialogues of one or two turns and responses of 1 to ``longest`` tokens."""

    def draw(rows: int = 6, longest: int = 7) -> Batch:
        generator = torch.Generator().manual_seed(rows)

        def words(most: int) -> list[int]:
            count = int(torch.randint(1, most + 1, (1,), generator=generator))
            return torch.randint(6, VOCABULARY, (count,), generator=generator).tolist()

        pairs = []
        for row in range(rows):
            context = [SELF, *words(4), OTHER, *words(5), EOS] if row % 2 else [OTHER, *words(5), EOS]
            pairs.append((context, [BOS, *words(longest - 1), EOS]))
        return collate(pairs, range(rows), target_bytes=rows)

    return draw
