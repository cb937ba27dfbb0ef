"""Transformer encoder and decoder; Vaswani et al. 2017, with norms before the sublayers Xiong
et al. 2020.

Read first: `layers.py`.
"""

from dialog.models.transformer.decoder import TransformerDecoder
from dialog.models.transformer.decoder_only import DecoderOnlyTransformer, EmbeddingEncoder
from dialog.models.transformer.encoder import TransformerEncoder
from dialog.models.transformer.transformer_settings import TransformerSettings

__all__ = [
    "DecoderOnlyTransformer",
    "EmbeddingEncoder",
    "TransformerDecoder",
    "TransformerEncoder",
    "TransformerSettings",
]
