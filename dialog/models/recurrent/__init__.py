"""Recurrent encoders and decoders of any cell.

Read first: `bahdanau.py`.
"""

from dialog.models.recurrent.bahdanau import BahdanauDecoder
from dialog.models.recurrent.bridges import BRIDGES
from dialog.models.recurrent.cells import GRU, LSTM, RecurrentSettings
from dialog.models.recurrent.encoder import RecurrentEncoder
from dialog.models.recurrent.luong import LuongDecoder
from dialog.models.recurrent.plain import PlainDecoder

__all__ = [
    "BRIDGES",
    "GRU",
    "LSTM",
    "BahdanauDecoder",
    "LuongDecoder",
    "PlainDecoder",
    "RecurrentEncoder",
    "RecurrentSettings",
]
