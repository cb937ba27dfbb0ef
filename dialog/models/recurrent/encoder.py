"""The recurrent encoder.

Shapes: B rows, S source tokens, E embedding size, M memory size, D width of a direction (M or M /
    2).
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from dialog.models.contracts import AttentionHook, Encoded, Encoder, FinalStates
from dialog.models.kernels.linear import has_fast_bfloat16
from dialog.models.recurrent.cells import RecurrentCell, RecurrentSettings, shared_mask, take_steps
from dialog.models.recurrent.sequences import run_layer, run_to_ends


class RecurrentEncoder(Encoder):
    """Recurrent encoder, by default bidirectional: state j is [forward_j; backward_j], of total
    size M = ``size``.

    The backward direction reads each row's real tokens in reverse, so it never sees padding and
    nothing is packed (on a CPU packing disables the fused kernel). The summary is the last state of
    both directions; Bahdanau et al. 2015, 3.2. ``variational`` dropout disables the fused kernel in
    training.

    After `keep_final` it also returns the last hidden and cell state of each layer, [forward;
    backward].

    Raises:
        ValueError: an odd size for two directions.
    """

    Settings = RecurrentSettings

    def __init__(
        self, cell: RecurrentCell, settings: RecurrentSettings, *, bidirectional: bool = True
    ) -> None:
        super().__init__()
        if bidirectional and settings.size % 2:
            raise ValueError(f"size of a bidirectional encoder must be even, not {settings.size}")
        self.cell = cell
        self.size = settings.size
        self.width = settings.size // 2 if bidirectional else settings.size
        self.keeps_final = False
        self.dropout = nn.Dropout(settings.dropout)
        self.variational = settings.variational and settings.dropout > 0
        widths = [settings.input_size] + [settings.size] * (settings.layers - 1)
        self.forward_layers = nn.ModuleList(
            cell.layer(width, self.width, settings.initialisation) for width in widths
        )
        self.backward_layers = nn.ModuleList(
            cell.layer(width, self.width, settings.initialisation)
            for width in widths
            if bidirectional
        )

    def keep_final(self, needed: FinalStates) -> None:
        """Return the last states of each layer from now on.

        Raises:
            ValueError: the decoder has another cell or number of layers, or this encoder has
                variational dropout.
        """
        own = FinalStates(self.cell.name, len(self.forward_layers))
        for field, mine, other in (
            ("name", own.cell, needed.cell),
            ("layers", own.layers, needed.layers),
        ):
            if mine != other:
                raise ValueError(
                    f"decoder.bridge final: encoder.{field} is {mine}, that of the decoder {other};"
                    " make them equal, or use another bridge"
                )
        if self.variational:
            raise ValueError(
                "encoder.variational: unsupported if the decoder starts from the encoder's final"
                " states; set it to false, or use another decoder.bridge"
            )
        self.keeps_final = True

    def prepared(self, *, int8: bool) -> Encoder:
        """Return a copy in bfloat16 where that is faster and ``int8`` allows it."""
        return Bfloat16Encoder(self) if int8 and has_fast_bfloat16() else self

    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Encode inputs [B, S, E], mask [B, S] into states [B, S, M]."""
        lengths = mask.sum(1, keepdim=True)  # [B, 1]
        steps = torch.arange(mask.shape[1], device=mask.device)  # [S]
        mirror = torch.where(mask, lengths - 1 - steps, steps)  # [B, S], its own inverse
        last = (lengths - 1).clamp(min=0)  # [B, 1]
        states = inputs
        ends = []
        final = []
        for depth, layer in enumerate(self.forward_layers):
            states = self._between(states) if depth else states
            runs = [self._run(layer, states, mask)]
            directions = [runs[0][0]]  # [B, S, D]
            if self.backward_layers:
                runs.append(
                    self._run(self.backward_layers[depth], take_steps(states, mirror), mask)
                )
                directions.append(take_steps(runs[1][0], mirror))
            ends = [take_steps(outputs, last) for outputs, *_ in runs]
            final.append(
                [torch.cat(parts, -1) for parts in zip(*(state for _, *state in runs), strict=True)]
            )
            states = torch.cat(directions, -1)  # [B, S, M]
        real = mask.unsqueeze(-1)
        summary = torch.cat(ends, -1).squeeze(1) * real.any(1)  # [B, M]
        kept = (
            tuple(torch.stack(layers, 1) for layers in zip(*final, strict=True))
            if self.keeps_final
            else ()
        )
        return Encoded(states.masked_fill(~real, 0.0), mask, summary, kept)

    def _between(self, states: Tensor) -> Tensor:
        """Dropout between layers."""
        if self.variational and self.training:
            return states * shared_mask(states[:, :1], self.dropout.p)
        dropped: Tensor = self.dropout(states)
        return dropped

    def _run(self, layer: Any, states: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Run one direction over a source from zeros; the last states are those at real tokens if
        they are kept.
        """
        if self.keeps_final:
            return run_to_ends(self.cell, layer, states, mask)
        hidden = states.new_zeros(len(states), self.width)
        dropout = (
            shared_mask(hidden, self.dropout.p) if self.variational and self.training else None
        )
        return run_layer(self.cell, layer, states, hidden, self.cell.first_state(hidden), dropout)


class Bfloat16Encoder(Encoder):
    """Recurrent encoder in bfloat16, with inputs and outputs in another precision."""

    def __init__(self, encoder: RecurrentEncoder) -> None:
        super().__init__()
        self.size = encoder.size
        self.own_dropout = encoder.own_dropout
        self.encoder = deepcopy(encoder).bfloat16()

    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Encode inputs [N, S, E], mask [N, S] into states [N, S, M]."""
        encoded: Encoded = self.encoder(inputs.bfloat16(), mask, hook)
        states, summary, *final = (
            part.to(inputs.dtype) for part in (encoded.states, encoded.summary, *encoded.final)
        )
        return Encoded(states, mask, summary, tuple(final))
