"""Transformer encoder.

Shapes: B rows, S source tokens, E embedding size (= D width), M memory size (= D).
"""

from __future__ import annotations

from torch import Tensor, nn

from dialog.models.contracts import AttentionHook, Encoded, Encoder
from dialog.models.transformer.layers import EncoderLayer, checkpointed
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
