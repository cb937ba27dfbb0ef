"""Alignment accuracy of attention, against gold alignments of copied tokens.

Shapes: B rows, H heads, T target tokens, S source tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from dialog.models.contracts import AttentionHook


@dataclass
class AlignmentAccuracy:
    """Counts of correctly aligned target tokens, for each cross-attention head.

    Accuracy = hits / tokens over the target tokens that are copies of a known source token. A hit: under teacher
    forcing, argmax_s of the weights at the step that predicts the token is that source token (chance: about 1 / S).
    """

    tokens: int = 0
    hits: Counter[str] = field(default_factory=Counter)

    def hook(self, model: nn.Module, gold: Sequence[dict[int, int]]) -> AttentionHook:
        """Return a hook that counts one forward pass; ``gold[row]`` maps target to source positions."""
        names = {module: name for name, module in model.named_modules()}
        pairs = [(row, target, source) for row, links in enumerate(gold) for target, source in links.items()]
        self.tokens += len(pairs)

        def count(module: nn.Module, weights: Tensor) -> None:
            name = names[module]
            if name.startswith("encoder.") or name.endswith("self_attention"):
                return
            for row, target, source in pairs:
                predicted = weights[row, :, target].argmax(-1)  # [H]
                for head, position in enumerate(predicted.tolist()):
                    self.hits[f"{name}.{head}"] += position == source

        return count

    @classmethod
    def total(cls, counts: Iterable[AlignmentAccuracy]) -> AlignmentAccuracy:
        """Add the counts of all ranks."""
        total = cls()
        for count in counts:
            total.tokens += count.tokens
            total.hits.update(count.hits)
        return total

    def metrics(self) -> dict[str, Any]:
        """Return the accuracy of every head, and the best one; empty without copied tokens or cross-attention."""
        if not self.hits:
            return {}
        accuracy = {name: hits / self.tokens for name, hits in sorted(self.hits.items())}
        best = max(accuracy, key=lambda name: accuracy[name])
        return {
            "copied_tokens": self.tokens,
            "alignment_accuracy": accuracy[best],
            "alignment_head": best,
            "alignment_heads": accuracy,
        }
