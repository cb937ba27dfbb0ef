"""Settings that recurrent encoders and decoders share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RecurrentSettings:
    """Sizes and dropout of recurrent layers.

    Dropout is applied between layers. ``variational`` keeps one mask for all steps and applies one to the recurrent
    states too (Gal & Ghahramani 2016).
    """

    input_size: int
    size: int
    layers: int = 1
    variational: bool = False
    dropout: float = 0.0

    def __post_init__(self) -> None:
        """Raise ValueError for an impossible value."""
        if self.layers < 1:
            raise ValueError(f"layers must be at least 1, not {self.layers}")
