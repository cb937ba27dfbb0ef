"""MAUVE by a local language model.

Shapes: N texts, E embedding size.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from dialog.errors import install
from dialog.metrics.meaning.encoder import LocalEncoder, batches

SEED = 25
"""The library's."""


class Mauve(Metric):
    """MAUVE = 100 * area under the divergence curve of responses and references.

    Pillutla et al. (2021), NeurIPS.

    Each text is embedded as the last hidden state of its last token. All embeddings are clustered
    by k-means into N / 10 clusters; the curve has the Kullback-Leibler divergences of the two
    histograms over the clusters from their mixtures. Computed by the library mauve-text. Only
    values of the same model and the same number of responses are comparable; the paper uses GPT-2
    large and at least 1,000 texts. It takes 8 E bytes per response.

    Args:
        model: Folder of a language model such as GPT-2, see `LocalEncoder`.
    """

    full_state_update = False
    higher_is_better = True
    own: list[Tensor] | Tensor
    gold: list[Tensor] | Tensor

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(**options)
        try:
            self.library: Any = import_module("mauve")
        except ImportError as error:
            raise ValueError(f"needs mauve-text; run {install('meaning')}") from error
        self.encoder = LocalEncoder(model)
        self.add_state("own", [], dist_reduce_fx="cat")
        self.add_state("gold", [], dist_reduce_fx="cat")

    def update(self, responses: Sequence[str], references: Sequence[str]) -> None:
        """Add responses and their references, raw text."""
        for own, gold in batches(responses, references):
            self.own = [*self.own, self._features(own)]
            self.gold = [*self.gold, self._features(gold)]

    def compute(self) -> Tensor:
        """Return MAUVE in [0, 100]."""
        own, gold = (dim_zero_cat(side).cpu().numpy() for side in (self.own, self.gold))
        area = self.library.compute_mauve(
            p_features=gold, q_features=own, seed=SEED, verbose=False
        ).mauve
        return torch.tensor(100 * float(area), dtype=torch.float64, device=self.device)

    def _features(self, texts: Sequence[str]) -> Tensor:
        """Return the state of the last token of each text [N, E]; an empty text is read as "."."""
        embedded = self.encoder.embed([text if text.strip() else "." for text in texts])
        last = embedded.real.sum(1) - 1  # [N]
        return embedded.states[torch.arange(len(last)), last].to(self.device)
