"""Train an LSTM with your own attention.

Run `python examples/own_attention.py [KEY=VALUE ...]`. The recipe names the class as MODULE.CLASS,
followed by its arguments; trust=True allows the import.
"""

import sys

import torch
from torch import nn

import dialog


class Distance(nn.Module):
    """Score by distance: -|W q - U k|^2 / K, so the nearest key has the largest weight."""

    def __init__(self, query_size: int, key_size: int, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(query_size, size, bias=False)
        self.key = nn.Linear(key_size, size, bias=False)

    def keys(self, states: torch.Tensor) -> torch.Tensor:
        """Project encoder states [B, S, M] to keys [B, S, K], once per source."""
        return self.key(states)

    def forward(self, query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
        """Score keys [B, S, K] for decoder states [B, T, Q]; return [B, T, S]."""
        products = self.query(query) @ keys.transpose(1, 2)
        squares = keys.square().sum(-1).unsqueeze(1)
        # |W q|^2 is equal for all keys, so it would not change the softmax
        return (2 * products - squares) / keys.size(-1)


if __name__ == "__main__":
    attention = "model.decoder.attention={name: own_attention.Distance, size: 64}"
    composed = dialog.compose("quickstart/lstm_bahdanau", [attention, *sys.argv[1:]], trust=True)
    print(dialog.train(composed).folder)
