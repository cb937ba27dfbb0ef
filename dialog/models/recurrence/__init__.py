"""Recurrences that train in parallel over tokens, and the encoders and decoders made of them.

Read first: `kernels/recurrence.py`, then `mixers/mixer.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dialog.models.recurrence.decoder import MixerDecoder
from dialog.models.recurrence.encoder import MixerEncoder
from dialog.models.recurrence.mixers import MIXERS
from dialog.models.recurrence.named import WithMixer

MIXER_ENCODERS: Mapping[str, Callable[..., MixerEncoder]] = {
    "mixer": MixerEncoder,
    **{name: WithMixer(MixerEncoder, name) for name in MIXERS},
}
MIXER_DECODERS: Mapping[str, Callable[..., MixerDecoder]] = {
    "mixer": MixerDecoder,
    **{name: WithMixer(MixerDecoder, name) for name in MIXERS},
}

__all__ = ["MIXERS", "MIXER_DECODERS", "MIXER_ENCODERS", "MixerDecoder", "MixerEncoder"]
