"""sLSTM, the scalar memory of xLSTM.

Shapes: B rows, T tokens, D size of the model, W width, H heads.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.models.contracts import AttentionHook
from dialog.models.kernels.autocast import without_autocast
from dialog.models.recurrence.kernels.recurrence import NEVER, Memory, exact
from dialog.models.recurrence.mixers.gated_output import HeadNorm
from dialog.models.recurrence.mixers.local import ShortConvolution
from dialog.models.recurrence.mixers.mixer import (
    START,
    Mixer,
    MixerState,
    check_heads,
    projection,
)


class SLSTM(Mixer):
    """sLSTM of xLSTM, an LSTM with exponential input gates; Beck et al. 2024, 2.2.

    c_t = f c_{t-1} + i tanh(z), n_t = f n_{t-1} + i, h_t = sigmoid(o) c_t / n_t with f =
    sigmoid(f~), i = exp(i~), (i~, f~, z, o) = W x_t + R h_{t-1} + b. Output W_o norm(h); state h,
    c, n and the logarithm of the scale of c and n, each [W], and the window [3, D].

    R is one matrix for each head; i~ and f~ read a convolution of the inputs. The gates see the
    last output, so no form is parallel: a loop over tokens.
    """

    def __init__(self, size: int, width: int, heads: int) -> None:
        super().__init__()
        check_heads(width, heads)
        head = width // heads
        self.convolution = ShortConvolution(size)
        self.rates = projection(size, 2 * width, bias=True)  # i~, f~
        self.contents = projection(size, 2 * width, bias=True)  # z, o
        self.recurrent = nn.Parameter(torch.zeros(heads, head, 4 * head))
        self.norm = HeadNorm(width)
        self.output = projection(width, size)
        self.heads = heads
        with torch.no_grad():
            # from long to short memories within each head, 5 down to -7, as published
            spread = 5 - 12 * torch.linspace(0, 1, head) ** 0.3
            self.rates.bias.view(heads, 2, head)[:, 1] = spread

    def forward(
        self,
        inputs: Tensor,
        state: MixerState = START,
        mask: Tensor | None = None,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, MixerState]:
        """Map inputs [B, T, D] to [B, T, D]."""
        local, window = self.convolution(inputs, state.window, mask)
        # i~, f~, z and o of a head side by side: [B, T, H, 4 W / H]
        gates = torch.cat(
            [
                torch.unflatten(exact(layer(source)), -1, (self.heads, -1))
                for layer, source in ((self.rates, local), (self.contents, inputs))
            ],
            -1,
        )
        memory = state.memory or self._start(gates)
        with without_autocast(inputs):
            outputs, memory = self.run(gates, memory, mask)
        normed = self.norm(outputs).to(inputs.dtype)
        return self.output(normed), MixerState(memory, window)

    def run(self, gates: Tensor, memory: Memory, mask: Tensor | None) -> tuple[Tensor, Memory]:
        """Advance by T tokens with W x + b [B, T, H, 4 W / H], mask [B, T] (True = real); return
        all h [B, T, H, W / H] and the states after each row's real tokens.
        """
        weight = exact(self.recurrent)
        outputs = []
        for token, gate in enumerate(gates.unbind(1)):
            after = self.step(gate, memory, weight)
            if mask is not None:
                real = mask[:, token, None, None]
                after = tuple(
                    torch.where(real, new, old) for new, old in zip(after, memory, strict=True)
                )
            memory = after
            outputs.append(memory[0])
        return torch.stack(outputs, 1), memory

    def step(self, gates: Tensor, memory: Memory, weight: Tensor) -> Memory:
        """Advance the states h, c, n, m [B, H, W / H] by one token with W x + b [B, H, 4 W / H] and
        R [H, W / H, 4 W / H].
        """
        hidden, content, norm, top = memory
        recurrent = torch.einsum("bhi,hij->bhj", hidden, weight)
        enter, forget, candidate, output = (gates + recurrent).chunk(4, -1)
        log_forget = F.logsigmoid(forget) + top
        # h = c / n does not depend on the scale m, so it needs no gradient
        top = torch.maximum(log_forget, enter).detach()
        forget = (log_forget - top).exp()
        enter = (enter - top).exp()
        content = forget * content + enter * candidate.tanh()
        norm = forget * norm + enter
        return output.sigmoid() * content / norm, content, norm, top

    def _start(self, gates: Tensor) -> Memory:
        zeros = gates.new_zeros(len(gates), self.heads, gates.shape[-1] // 4)
        return zeros, zeros, zeros, zeros + NEVER
