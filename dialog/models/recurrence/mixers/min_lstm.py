"""minLSTM.

Shapes: B rows, T tokens, D size of the model, W width.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from dialog.models.contracts import AttentionHook
from dialog.models.recurrence.kernels.recurrence import exact
from dialog.models.recurrence.kernels.scan import Scan
from dialog.models.recurrence.mixers.mixer import START, Mixer, MixerState, projection


class MinLSTM(Mixer):
    """minLSTM; Feng et al. 2024, 3.2.

    h_t = f' * h_{t-1} + i' * c_t with f' = f / (f + i), i' = i / (f + i), f = sigmoid(W_f x_t + b),
    i = sigmoid(W_i x_t + b), c_t = W_h x_t. Output W_o h_t; state [W].
    """

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.forget = projection(size, width, bias=True)
        self.enter = projection(size, width, bias=True)
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
        forget = F.logsigmoid(exact(self.forget(inputs)))
        enter = F.logsigmoid(exact(self.enter(inputs)))
        decay = (forget - enter).sigmoid()  # f / (f + i), without a division
        candidate = self.candidate(inputs)
        hidden, memory = self.mix(self.recurrence, (decay, (1 - decay) * candidate), state, mask)
        return self.output(hidden.to(candidate.dtype)), MixerState(memory)
