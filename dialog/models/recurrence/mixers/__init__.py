"""Mixers, one file each: the formula, its place in the paper, the shapes.

Read first: `mixer.py`, then `gla.py`.
"""

from __future__ import annotations

from dialog.config.components import Family
from dialog.models.recurrence.mixers.gated_delta import GatedDelta
from dialog.models.recurrence.mixers.gla import GLA
from dialog.models.recurrence.mixers.mamba2 import Mamba2
from dialog.models.recurrence.mixers.min_gru import MinGRU
from dialog.models.recurrence.mixers.min_lstm import MinLSTM
from dialog.models.recurrence.mixers.mixer import Mixer
from dialog.models.recurrence.mixers.mlstm import MLSTM
from dialog.models.recurrence.mixers.retnet import RetNet
from dialog.models.recurrence.mixers.rwkv7 import RWKV7
from dialog.models.recurrence.mixers.slstm import SLSTM

MIXERS: Family[Mixer] = Family(
    "mixer",
    {
        "min_gru": MinGRU,
        "min_lstm": MinLSTM,
        "mlstm": MLSTM,
        "slstm": SLSTM,
        "mamba2": Mamba2,
        "gated_delta": GatedDelta,
        "gla": GLA,
        "retnet": RetNet,
        "rwkv7": RWKV7,
    },
    runtime=("size", "width", "heads"),
)
