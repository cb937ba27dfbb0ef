"""Padded sources without their padding, and memory of sources that the rows of a beam share.

Shapes: N sources, K rows of each, S source tokens, R rows of real tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from dialog.models.state import Rows

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


@dataclass(frozen=True)
class SharedRows(Rows):
    """Bundle of N sources that stands for N K rows; K consecutive rows share a source, which is
    stored once.
    """

    parts: tuple[Tensor, ...]  # each [N, ..]
    copies: int = 1  # K

    def repeat(self, times: int) -> Self:
        """Let ``times`` as many rows share each source."""
        return replace(self, copies=self.copies * times)

    def select(self, rows: Tensor) -> Self:
        """Return the sources of rows; they stay shared if all rows of each source are selected
        together.
        """
        sources = rows.div(self.copies, rounding_mode="floor")
        copies = self.copies
        if copies > 1:
            groups = sources.view(-1, copies) if len(rows) % copies == 0 else sources.view(-1, 1)
            is_whole = groups.shape[1] == copies and bool((groups == groups[:, :1]).all())
            sources, copies = (groups[:, 0], copies) if is_whole else (sources, 1)
        return replace(
            self, parts=tuple(part.index_select(0, sources) for part in self.parts), copies=copies
        )


def additive_mask(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 0 at real tokens and the lowest number at padding, to be added to scores; of the
    mask's shape.
    """
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(
        ~mask, torch.finfo(dtype).min
    )
