"""BERTScore by a local model.

Shapes: B texts, T tokens of the response, R tokens of the reference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from dialog.metrics.meaning.encoder import Embedded, LocalEncoder, batches
from dialog.metrics.overlap import MeanOverlap
from dialog.metrics.scores.additive import References


class BertScore(MeanOverlap):
    """BERTScore = mean over responses of 100 * 2 P R / (P + R). Zhang et al. (2020), ICLR.

    P = mean over the tokens of the response of the largest cosine to a token of the reference, R
    the same with both exchanged, between hidden states of a pretrained model. As in the bert_score
    library without idf weights and without rescaling: special tokens can be matched, but are not
    averaged over. An empty response or reference scores 0.

    Args:
        model: Folder of an encoder such as BERT, see `LocalEncoder`.
        layer: Hidden state; the last by default. The library's choice is 9 for bert-base, 17 for
            roberta-large.
    """

    def __init__(self, model: str, layer: int | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.encoder = LocalEncoder(model, layer)

    def score(self, response: str, reference: str) -> float:
        """Return the F1 of a response, at most 1."""
        return float(self.statistics_of([response], [reference])[0, 0])

    def statistics_of(self, responses: Sequence[str], references: Sequence[References]) -> Tensor:
        """Return F1 and 1 of each response: float64 [N, 2]."""
        if len(responses) != len(references):
            raise ValueError(
                f"{len(responses)} responses, {len(references)} references; give one for each"
            )
        single = [one for one in references if isinstance(one, str)]
        if len(single) < len(references):
            return torch.from_numpy(super().statistics_of(responses, references))
        scores = [
            greedy_f1(self.encoder.embed(own), self.encoder.embed(gold))
            for own, gold in batches(responses, single)
        ]
        column = torch.cat([torch.empty(0), *scores]).double()
        return torch.stack([column, torch.ones_like(column)], 1)


def greedy_f1(response: Embedded, reference: Embedded) -> Tensor:
    """Return the F1 [B] of the best match of each token."""
    own, gold = (
        torch.nn.functional.normalize(side.states, dim=-1) for side in (response, reference)
    )
    cosines = own @ gold.transpose(1, 2)  # [B, T, R]
    pairs = response.real.unsqueeze(2) & reference.real.unsqueeze(1)
    cosines = cosines.masked_fill(~pairs, 0.0)
    precision = _mean(cosines.amax(2), response.content)  # [B]
    recall = _mean(cosines.amax(1), reference.content)  # [B]
    valid = response.content.any(1) & reference.content.any(1)
    f1 = 2 * precision * recall / torch.where(valid, precision + recall, 1.0)
    return torch.where(valid, f1, 0.0)


def _mean(values: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of values [B, T] where a mask is True; 0 without any."""
    return (values * mask).sum(1) / mask.sum(1).clamp(min=1)
