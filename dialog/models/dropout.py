"""Dropout of all networks."""

from __future__ import annotations

from torch import Tensor, nn

from dialog.models.kernels.byte_dropout import byte_dropout


class Dropout(nn.Dropout):
    """In training, a number becomes 0 with probability p, else is multiplied by 1 / (1 - p); Srivastava et al. 2014."""

    def forward(self, input: Tensor) -> Tensor:
        """Numbers of any shape."""
        return byte_dropout(input, self.p) if self.training else input
