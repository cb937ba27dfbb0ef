"""Attention: scorers, the masked mean that they share, and multi-head attention.

Read first: `attention.py`; Bahdanau's scorer is in `additive.py`.
"""

from dialog.models.attention.additive import AdditiveScorer, FineGrainedScorer
from dialog.models.attention.attention import (
    SCORERS,
    Attention,
    AttentionScorer,
    NoAttention,
    build_attention,
)
from dialog.models.attention.content import (
    BilinearScorer,
    DotScorer,
    InteractiveScorer,
    ScaledDotScorer,
)
from dialog.models.attention.multi_head import MultiHeadAttention
from dialog.models.attention.multi_head_scorer import MultiHeadScorer
from dialog.models.attention.positional import LocalScorer, LocationScorer
from dialog.models.attention.softmax import masked_softmax

__all__ = [
    "SCORERS",
    "AdditiveScorer",
    "Attention",
    "AttentionScorer",
    "BilinearScorer",
    "DotScorer",
    "FineGrainedScorer",
    "InteractiveScorer",
    "LocalScorer",
    "LocationScorer",
    "MultiHeadAttention",
    "MultiHeadScorer",
    "NoAttention",
    "ScaledDotScorer",
    "build_attention",
    "masked_softmax",
]
