"""The encoders of token sequences; the hierarchical encoder is made of two of them."""

from __future__ import annotations

from functools import partial

from dialog.config.components import Family
from dialog.models.contracts import Encoder
from dialog.models.recurrent import GRU, LSTM, RecurrentEncoder
from dialog.models.transformer import TransformerEncoder

SEQUENCE_ENCODERS: Family[Encoder] = Family(
    "encoder",
    {
        "lstm": partial(RecurrentEncoder, LSTM()),
        "gru": partial(RecurrentEncoder, GRU()),
        "transformer": TransformerEncoder,
    },
    runtime=("input_size", "dropout", "activation_checkpointing"),
)
