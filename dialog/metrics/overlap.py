"""Overlap of responses with their references, as `torchmetrics.Metric` classes."""

from __future__ import annotations

from dialog.metrics.additive import AdditiveMetric
from dialog.metrics.scores.bleu import BLEUScore, SacreBLEUScore
from dialog.metrics.scores.chrf import ChrFScore
from dialog.metrics.scores.overlap import F1Score, MeanOverlapScore, PlatoBLEUScore, RougeLScore


class MeanOverlap(MeanOverlapScore, AdditiveMetric):
    """Mean over responses of a score in [0, 1], in percent; 0 without responses."""


class F1(F1Score, AdditiveMetric):
    """Unigram F1 as in ParlAI: `F1Score`."""


class RougeL(RougeLScore, AdditiveMetric):
    """ROUGE-L: `RougeLScore`."""


class PlatoBLEU(PlatoBLEUScore, AdditiveMetric):
    """Smoothed sentence BLEU-n of PLATO: `PlatoBLEUScore`."""


class SacreBLEU(SacreBLEUScore, AdditiveMetric):
    """Corpus BLEU-4 of the sacrebleu library: `SacreBLEUScore`."""


class BLEU(BLEUScore, AdditiveMetric):
    """Corpus BLEU-n: `BLEUScore`."""


class ChrF(ChrFScore, AdditiveMetric):
    """chrF2 of character n-grams: `ChrFScore`."""
