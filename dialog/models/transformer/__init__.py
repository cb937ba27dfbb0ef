"""Transformer encoder and decoder; Vaswani et al. 2017, and with norms before the sublayers Xiong et al. 2020."""

from dialog.models.transformer.decoder import TransformerDecoder
from dialog.models.transformer.encoder import TransformerEncoder

__all__ = ["TransformerDecoder", "TransformerEncoder"]
