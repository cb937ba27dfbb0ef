"""Settings that recurrent encoders and decoders share."""

from __future__ import annotations

from dataclasses import dataclass

from dialog.models.recurrent.cells import ORTHOGONAL, UNIFORM


@dataclass(frozen=True, kw_only=True)
class RecurrentSettings:
    """Sizes and dropout of recurrent layers.

    Dropout is applied between layers. ``variational`` keeps one mask for all steps and applies one
    to the recurrent states too (Gal & Ghahramani 2016); it has no effect if dropout is 0.
    ``initialisation``: ``orthogonal`` (orthogonal recurrent weights, Xavier input weights, biases
    0, but 1 for forget gates) or ``uniform`` (torch's default: all weights and biases uniform in
    +-1/sqrt(size)).
    """

    input_size: int
    size: int
    layers: int = 1
    variational: bool = False
    dropout: float = 0.0
    initialisation: str = ORTHOGONAL

    def __post_init__(self) -> None:
        """Raise ValueError for an impossible value."""
        if self.layers < 1:
            raise ValueError(f"layers must be at least 1, not {self.layers}")
        if self.initialisation not in (ORTHOGONAL, UNIFORM):
            raise ValueError(
                f"initialisation must be {ORTHOGONAL} or {UNIFORM}, not {self.initialisation!r}"
            )
