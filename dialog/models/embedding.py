"""Token embeddings.

Shapes: B rows, T tokens, E embedding size, V vocabulary.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """Embedding: sqrt(E) times a row of N(0, 1 / E), Vaswani et al. 2017, 3.4; or, not ``scaled``,
    a row of N(0, 1).

    Vectors enter the network with unit variance. The scaled table as output layer gives scores of
    unit variance (Press & Wolf 2017); Adam changes its vectors sqrt(E) times as fast. The padding
    token's row starts as zeros and gets no gradient from here; as output weights, it gets that of
    the output layer.
    """

    def __init__(self, vocabulary: int, size: int, *, padding: int, scaled: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, size, padding_idx=padding)
        self.scale = size**0.5 if scaled else 1.0
        nn.init.normal_(self.table.weight, std=1 / self.scale)
        with torch.no_grad():
            self.table.weight[padding] = 0.0

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [B, T] to vectors [B, T, E]."""
        vectors: Tensor = self.table(tokens)  # [B, T, E]
        return vectors if self.scale == 1.0 else vectors * self.scale
