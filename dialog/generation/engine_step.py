"""Steps of another engine, such as ONNX Runtime, in place of a network's.

Shapes: N rows, S source tokens, T tokens, V vocabulary.
"""

from __future__ import annotations

from typing import Any, NoReturn, Protocol

from torch import Tensor

from dialog.generation.network_step import Watch
from dialog.models.state import Rows


class EngineStep(Protocol):
    """An `EncodingStep` whose memory and state are bundles of rows."""

    def start(self, source: Tensor, mask: Tensor) -> tuple[Any, Any]:
        """Encode a source [N, S], mask True = real; return memory and state."""

    def __call__(self, tokens: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        """Read tokens [N, T]; return logits [N, T, V] and the new state."""

    def represent(self, tokens: Tensor, memory: Rows, state: Rows) -> NoReturn:
        """Raise UserError: engines do not show the vectors of the logits."""


class WatchedEngine:
    """An engine's step that calls ``watch`` before it computes."""

    def __init__(self, step: EngineStep, watch: Watch) -> None:
        self.step = step
        self.watch = watch
        self.start = step.start
        self.represent = step.represent

    def __call__(self, tokens: Tensor, memory: Any, state: Any) -> tuple[Tensor, Any]:
        """Read tokens [N, T]; return logits [N, T, V] and the new state."""
        self.watch([])
        return self.step(tokens, memory, state)
