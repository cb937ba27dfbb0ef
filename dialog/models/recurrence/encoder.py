"""Encoder of mixers.

Shapes: B rows, S source tokens, E embedding size (= D size), M memory size (= D).
"""

from __future__ import annotations

from torch import Tensor, nn

from dialog.config.components import Component
from dialog.models.contracts import AttentionHook, Encoded, Encoder
from dialog.models.recurrence.layers import MixerEncoderLayer, mirrored_steps
from dialog.models.transformer.layers import checkpointed
from dialog.models.transformer.transformer_settings import LayerSettings


class MixerEncoder(Encoder):
    """Layers of mixers over the source, by default in both directions; the summary is the mean
    state.

    ``mixer`` is a component; ``width`` is that of all its heads and directions together (default:
    the embedding's). ``causal`` leaves out the direction from the end.

    Raises:
        ValueError: a width or numbers of heads that do not fit.
    """

    Settings = LayerSettings
    own_dropout = True

    def __init__(
        self,
        settings: LayerSettings,
        *,
        mixer: Component,
        width: int | None = None,
        causal: bool = False,
    ) -> None:
        super().__init__()
        self.size = settings.input_size
        self.dropout = nn.Dropout(settings.dropout)
        self.layers = nn.ModuleList(
            MixerEncoderLayer(settings, mixer, width=width, causal=causal)
            for _ in range(settings.layers)
        )
        self.layer_drop = settings.drop_layers()
        self.activation_checkpointing = settings.activation_checkpointing
        self.norm = settings.last_norm()

    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Encode inputs [B, S, E], mask [B, S] into states [B, S, M]."""
        states = self.dropout(inputs)
        mirror = mirrored_steps(mask)
        for layer in self.layers:
            run = checkpointed(layer, hook=hook) if self.activation_checkpointing else layer
            states = self.layer_drop(states, run(states, mask, mirror, hook=hook))
        real = mask.unsqueeze(-1)
        states = self.norm(states).masked_fill(~real, 0.0)  # [B, S, M]
        summary = states.sum(1) / real.sum(1).clamp(min=1)  # [B, M]
        return Encoded(states, mask, summary)
