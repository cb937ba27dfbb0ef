"""Mixed precision that casts each weight once a step."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Literal, cast

import torch
from lightning.pytorch.plugins.precision import MixedPrecision


class CachedMixedPrecision(MixedPrecision):
    """Lightning's mixed precision with autocast's weight cache on.

    Lightning 2.6 turns the cache off (its issue 21611), so a recurrent loop casts its weights at every step and keeps
    every copy for the backward pass.
    """

    def autocast_context_manager(self) -> AbstractContextManager[None]:
        """One autocast for a whole step."""
        dtype = torch.bfloat16 if self.precision == "bf16-mixed" else torch.half
        return cast("AbstractContextManager[None]", torch.autocast(self.device, dtype=dtype))


def precision_plugin(precision: str, device: str) -> CachedMixedPrecision | None:
    """The plugin for a mixed precision; for others Lightning's own will do."""
    if precision not in ("bf16-mixed", "16-mixed"):
        return None
    return CachedMixedPrecision(cast("Literal['16-mixed', 'bf16-mixed']", precision), device)
