"""Networks of the modern recurrences and of a decoder alone, small enough to export in a test."""

from __future__ import annotations

from typing import Any

from torch import nn

from dialog.models.recurrence import MIXERS
from dialog.models.recurrence.decoder import MixerDecoder
from dialog.models.recurrence.encoder import MixerEncoder
from dialog.models.recurrence.layers import MixerDecoderLayer, MixerEncoderLayer
from dialog.models.transformer.transformer_settings import LayerSettings

SIZES = {"layers": 1, "heads": 2, "feed_forward_size": 20}
MODERN: dict[str, dict[str, Any]] = {
    "mixers": {
        "encoder": {"name": f"{__name__}.EveryMixerEncoder", **SIZES},
        "decoder": {"name": f"{__name__}.EveryMixerDecoder", **SIZES},
        "head": {"name": "pointer"},
        "tie_embeddings": "none",
    },
    "decoder only": {
        "encoder": {"name": "embedding"},
        "decoder": {
            **{"name": "decoder_only", "layers": 2, "heads": 4, "feed_forward_size": 20},
            **{"key_value_heads": 2, "positions": {"name": "rotary"}},
        },
    },
    "recurrent prefix": {
        "encoder": {"name": "embedding"},
        "decoder": {"name": "mamba2", "state_size": 4, "cross_attention": "prefix", **SIZES},
    },
}


class EveryMixerEncoder(MixerEncoder):
    """One layer of each mixer, in both directions."""

    def __init__(self, settings: LayerSettings) -> None:
        super().__init__(settings, mixer={"name": "min_gru"})
        self.layers = nn.ModuleList(
            MixerEncoderLayer(settings, {"name": name}, width=None, causal=False) for name in MIXERS
        )


class EveryMixerDecoder(MixerDecoder):
    """One layer of each mixer, with cross-attention."""

    def __init__(self, settings: LayerSettings, *, memory_size: int) -> None:
        super().__init__(settings, memory_size=memory_size, mixer={"name": "min_gru"})
        self.layers = nn.ModuleList(
            MixerDecoderLayer(settings, {"name": name}, width=None, cross_attention=True)
            for name in MIXERS
        )
