"""Padded sources without their padding, for products and norms of generation.

Shapes: N sources, S source tokens, D width, R rows of real tokens.
"""

from __future__ import annotations

import torch
from torch import Tensor

ROWS = 64
"""Rows of products are a multiple of it: oneDNN compiles and caches a kernel for each number of
rows.
"""


class RealTokens:
    """Real tokens of a mask [N, S], and as much padding as makes their number a multiple of `ROWS`.

    On a GPU all tokens are real: the host would have to wait for their number.
    """

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask
        self.places: Tensor | None = None  # [R]
        if mask.device.type == "cpu":
            flat = mask.flatten()
            real = int(flat.sum())
            count = -(-real // ROWS) * ROWS
            if count < len(flat):
                padding = (~flat).nonzero()[: count - real]
                self.places = torch.cat([flat.nonzero(), padding]).squeeze(1)

    def rows(self, padded: Tensor) -> Tensor:
        """Return the rows [R, D] of [N, S, D]."""
        rows = padded.flatten(0, 1)
        return rows if self.places is None else rows.index_select(0, self.places)

    def padded(self, rows: Tensor) -> Tensor:
        """Return rows [R, D] as [N, S, D]; some padding is 0."""
        if self.places is not None:
            rows = rows.new_zeros(self.mask.numel(), rows.shape[1]).index_copy_(
                0, self.places, rows
            )
        return rows.view(*self.mask.shape, rows.shape[1])
