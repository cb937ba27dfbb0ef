"""Alignment accuracy of attention, against gold alignments of copied tokens.

Shapes: B rows, H heads, T target tokens, S source tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from dialog.analysis.attention.maps import is_self_attention
from dialog.models.contracts import AttentionHook
from dialog.models.seq2seq import Seq2Seq


@dataclass
class AlignmentCounts:
    """Correctly aligned target tokens of each example, for each cross-attention head.

    Accuracy = hits / tokens over the target tokens that are copies of a known source token. A hit:
    under teacher forcing, argmax_s of the weights at the step that predicts the token is that
    source token (chance: about 1 / S).
    """

    tokens: Counter[int] = field(default_factory=Counter)
    """Copied tokens, by the number of the example in its split."""
    hits: dict[str, Counter[int]] = field(default_factory=dict)
    """Hits, by head and number of the example."""

    def hook(self, model: Seq2Seq, gold: Mapping[int, dict[int, int]]) -> AttentionHook:
        """Return a hook that counts one forward pass.

        ``gold`` has the rows of the batch in order: by number of the example, source positions by
        target position.
        """
        names = {module: name for name, module in model.named_modules()}
        encoders = {module for network in model.members for module in network.encoder.modules()}
        self.tokens.update({number: len(links) for number, links in gold.items()})

        def count(module: nn.Module, weights: Tensor) -> None:
            name = names[module]
            if module in encoders or is_self_attention(module, name):
                return
            for row, (number, links) in enumerate(gold.items()):
                for target, source in links.items():
                    predicted = weights[row, :, target].argmax(-1)  # [H]
                    for head, position in enumerate(predicted.tolist()):
                        self.hits.setdefault(f"{name}.{head}", Counter())[number] += (
                            position == source
                        )

        return count

    @classmethod
    def total(cls, counts: Iterable[AlignmentCounts]) -> AlignmentCounts:
        """Merge the counts of all ranks."""
        total = cls()
        for count in counts:
            total.tokens.update(count.tokens)
            for head, hits in count.hits.items():
                total.hits.setdefault(head, Counter()).update(hits)
        return total

    def statistics(self, examples: int) -> NDArray[np.float64]:
        """Return hits of the best head and copied tokens of each example [N, 2]; needs a hit or a
        miss.
        """
        hits = self.hits[self._best()]
        return np.array(
            [(hits[number], self.tokens[number]) for number in range(examples)], dtype=np.float64
        )

    def metrics(self) -> dict[str, Any]:
        """Return the accuracy of every head, and the best one; empty without copied tokens or
        cross-attention.
        """
        if not self.hits:
            return {}
        tokens = self.tokens.total()
        accuracy = {name: hits.total() / tokens for name, hits in sorted(self.hits.items())}
        best = self._best()
        return {
            "copied_tokens": tokens,
            "alignment_accuracy": accuracy[best],
            "alignment_head": best,
            "alignment_heads": accuracy,
        }

    def _best(self) -> str:
        return max(sorted(self.hits), key=lambda name: self.hits[name].total())
