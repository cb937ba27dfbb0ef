"""The encoders that a recipe can name, but for those that are made of others."""

from __future__ import annotations

from functools import partial

from dialog.config.components import Table
from dialog.models.contracts import Encoder
from dialog.models.recurrent import GRU, LSTM, RecurrentEncoder
from dialog.models.transformer import TransformerEncoder

FLAT: Table[Encoder] = {
    "lstm": partial(RecurrentEncoder, LSTM()),
    "gru": partial(RecurrentEncoder, GRU()),
    "transformer": TransformerEncoder,
}
