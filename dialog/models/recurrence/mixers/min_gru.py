"""minGRU.

Shapes: B rows, T tokens, D size of the model, W width.
"""

from __future__ import annotations

from torch import Tensor

from dialog.models.contracts import AttentionHook
from dialog.models.recurrence.kernels.recurrence import exact
from dialog.models.recurrence.kernels.scan import Scan
from dialog.models.recurrence.mixers.mixer import START, Mixer, MixerState, projection


class MinGRU(Mixer):
    """minGRU; Feng et al. 2024, 3.1.

    h_t = (1 - z_t) * h_{t-1} + z_t * c_t with z_t = sigmoid(W_z x_t + b), c_t = W_h x_t. Output W_o
    h_t; state [W]. The published positive form c = g(W_h x) serves a scan of logarithms and is not
    used.
    """

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.gate = projection(size, width, bias=True)
        self.candidate = projection(size, width)
        self.output = projection(width, size)
        self.recurrence = Scan()

    def forward(
        self,
        inputs: Tensor,
        state: MixerState = START,
        mask: Tensor | None = None,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, MixerState]:
        """Map inputs [B, T, D] to [B, T, D]."""
        update = exact(self.gate(inputs)).sigmoid()  # [B, T, W]
        candidate = self.candidate(inputs)
        hidden, memory = self.mix(self.recurrence, (1 - update, update * candidate), state, mask)
        return self.output(hidden.to(candidate.dtype)), MixerState(memory)
