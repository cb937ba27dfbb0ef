"""Recurrences over any number of tokens as ONNX's operator Scan, for the export only.

The forms that train in parallel loop over chunks or blocks, whose number torch.export would fix. So
the exported files compute the form that defines a recurrence: token by token.

Shapes: B rows, T tokens, C channels, H heads, W taps of a convolution or width.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from dialog.models.recurrence.kernels.recurrence import Memory, Recurrence, Signals, exact
from dialog.models.recurrence.mixers.local import ShortConvolution
from dialog.models.recurrence.mixers.slstm import SLSTM


class ScannedRecurrence(Recurrence):
    """A recurrence whose `chunk` is a scan of its `step`."""

    def __init__(self, recurrence: Recurrence) -> None:
        super().__init__()
        self.recurrence = recurrence

    def start(self, signals: Signals) -> Memory:
        """Return the memory before all tokens."""
        return self.recurrence.start(signals)

    def step(self, signals: Signals, memory: Memory) -> tuple[Tensor, Memory]:
        """Advance by one token."""
        return self.recurrence.step(signals, memory)

    def chunk(
        self, signals: Signals, memory: Memory = (), mask: Tensor | None = None
    ) -> tuple[Tensor, Memory]:
        """Advance by T tokens; padding keeps the memory."""
        return scanned(self.recurrence.step, signals, memory or self.start(signals), mask)


class OnnxShortConvolution(ShortConvolution):
    """The sum of shifted inputs without writing into a buffer."""

    def shifted_sum(self, inputs: Tensor, weight: Tensor) -> Tensor:
        """Return sum_j w_j * x_{t + j} [B, T, C] of x [B, T + W - 1, C] and w [W, C]."""
        taps = weight.shape[0]
        tokens = inputs.shape[1] - taps + 1
        shifted = [inputs[:, tap : tap + tokens] * weight[tap] for tap in range(taps)]
        return torch.stack(shifted).sum(0)


class OnnxSLSTM(SLSTM):
    """sLSTM as a scan."""

    def run(self, gates: Tensor, memory: Memory, mask: Tensor | None) -> tuple[Tensor, Memory]:
        """Advance by T tokens."""

        def step(signals: Signals, before: Memory) -> tuple[Tensor, Memory]:
            gate, weight = signals
            after = self.step(gate, before, weight)
            return after[0], after

        return scanned(step, (gates,), memory, mask, (exact(self.recurrent),))


def scanned(
    step: Callable[[Signals, Memory], tuple[Tensor, Memory]],
    signals: Signals,
    memory: Memory,
    mask: Tensor | None,
    weights: Signals = (),
) -> tuple[Tensor, Memory]:
    """Run a step over signals [B, T, ...], mask [B, T] (True = real); return all outputs
    [B, T, ...] and the memory after each row's real tokens.

    A step gets the signals of one token and the ``weights``, which are the same for all tokens.
    """
    states = len(memory)
    by_token = [signal.transpose(0, 1) for signal in signals]
    if mask is not None:
        by_token.append(mask.transpose(0, 1))

    def body(*values: Tensor) -> list[Tensor]:
        before = values[:states]
        one = values[states : states + len(signals)]
        shared = values[states + len(by_token) :]
        output, after = step((*one, *shared), before)
        if mask is not None:
            real = values[states + len(signals)]  # [B]
            after = tuple(
                torch.where(real.view(-1, *(1,) * (new.dim() - 1)), new, old)
                for new, old in zip(after, before, strict=True)
            )
        # no result may be an input or another result
        return [*(each.clone() for each in after), output.clone()]

    if by_token[0].shape[0] == 1:
        *after, output = body(*memory, *(each[0] for each in by_token), *weights)
        return output.unsqueeze(1), tuple(after)
    *after, outputs = torch.ops.higher_order.scan(
        body, [each.clone() for each in memory], by_token, weights
    )
    return outputs.transpose(0, 1), tuple(after)
