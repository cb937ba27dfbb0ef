"""Transformer encoder.

Shapes: B rows, S source tokens, E embedding size (= D width), M memory size (= D).
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from dialog.models.contracts import AttentionHook, Encoded, Encoder
from dialog.models.transformer.layers import EncoderLayer, PreparedEncoderLayer, checkpointed
from dialog.models.transformer.real_tokens import RealTokens
from dialog.models.transformer.sublayers import prepared_norm
from dialog.models.transformer.transformer_settings import TransformerSettings


class TransformerEncoder(Encoder):
    """Layers of self-attention over the whole source; the summary is the mean state."""

    Settings = TransformerSettings
    own_dropout = True

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.size = settings.input_size
        self.positions = settings.position_encoding()
        self.dropout = nn.Dropout(settings.dropout)
        self.layers = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.layers))
        self.layer_drop = settings.drop_layers()
        self.activation_checkpointing = settings.activation_checkpointing
        self.norm = settings.last_norm()

    def prepared(self, *, int8: bool) -> Encoder:
        """Return an encoder that leaves out padding; on a GPU that would wait for the number of
        tokens.
        """
        on_cpu = next(self.parameters()).device.type == "cpu"
        return PreparedTransformerEncoder(self, int8=int8) if on_cpu else self

    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Encode inputs [B, S, E], mask [B, S] into states [B, S, M]."""
        states = self.dropout(self.positions(inputs))
        turn = self.positions.turn_at(inputs)
        for layer in self.layers:
            run = checkpointed(layer, hook=hook) if self.activation_checkpointing else layer
            after = run(states, mask[:, None, None], turn, hook=hook)
            states = self.layer_drop(states, after)
        real = mask.unsqueeze(-1)
        states = self.norm(states).masked_fill(~real, 0.0)  # [B, S, M]
        summary = states.sum(1) / real.sum(1).clamp(min=1)  # [B, M]
        return Encoded(states, mask, summary)


class PreparedTransformerEncoder(Encoder):
    """Encoder layers in float32; products in the precision of the weights or in int8.

    The real tokens of all sources are the rows of each product and norm; only attention reads them
    padded.
    """

    own_dropout = True

    def __init__(self, encoder: TransformerEncoder, *, int8: bool) -> None:
        super().__init__()
        self.size = encoder.size
        self.original = encoder
        self.layers = [PreparedEncoderLayer(layer, int8) for layer in encoder.layers]
        self.norm = prepared_norm(encoder.norm, torch.float32)

    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Encode inputs [B, S, D], mask [B, S] into states [B, S, D] of the inputs' precision.

        With a hook, which sees the weights of padding too, the original encoder runs.
        """
        if hook is not None:
            encoded: Encoded = self.original(inputs, mask, hook)
            return encoded
        real = RealTokens(mask)
        positions = self.original.positions
        rows = real.rows(positions(inputs).float())
        turn = positions.turn_at(inputs)
        for layer in self.layers:
            rows = layer(rows, real, mask[:, None, None], turn)
        states = real.padded(self.norm(rows)).masked_fill(~mask.unsqueeze(-1), 0.0)
        summary = states.sum(1) / mask.sum(1, keepdim=True).clamp(min=1)  # [B, D]
        return Encoded(states.to(inputs.dtype), mask, summary.to(inputs.dtype))
