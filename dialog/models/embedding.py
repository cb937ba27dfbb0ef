"""Token embeddings.

Shapes: B rows, T tokens, E embedding size, V vocabulary.
"""

from __future__ import annotations

from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """Embedding: sqrt(E) times a row of N(0, 1 / E); Vaswani et al. 2017, 3.4.

    Vectors enter the network with unit variance, and the same table as output layer gives scores of unit variance
    (Press & Wolf 2017). The padding token's row gets no gradient from here.
    """

    def __init__(self, vocabulary: int, size: int, *, padding: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, size, padding_idx=padding)
        self.scale = size**0.5
        nn.init.normal_(self.table.weight, std=size**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [B, T] to vectors [B, T, E]."""
        vectors: Tensor = self.table(tokens) * self.scale  # [B, T, E]
        return vectors
