"""Whether attention looks where a copied token comes from.

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
class AlignmentCounts:
    """Alignment accuracy of each cross-attention head.

    Of the response tokens that are known to repeat a source token, the share for which the largest weight of the head,
    at the step that predicts the token under teacher forcing, lies on that source token (chance is about 1 / S).
    """

    tokens: int = 0
    hits: Counter[str] = field(default_factory=Counter)

    def watch(self, model: nn.Module, gold: Sequence[dict[int, int]]) -> AttentionHook:
        """A hook for one forward pass; ``gold[row]`` maps target positions to source positions."""
        names = {module: name for name, module in model.named_modules()}
        pairs = [(row, target, source) for row, each in enumerate(gold) for target, source in each.items()]
        self.tokens += len(pairs)

        def count(module: nn.Module, weights: Tensor) -> None:
            name = names[module]
            if name.startswith("encoder.") or name.endswith("self_attention"):
                return
            for row, target, source in pairs:
                at = weights[row, :, target]  # [H, S]
                for head, place in enumerate(at.argmax(-1).tolist()):
                    self.hits[f"{name}.{head}"] += place == source

        return count

    @classmethod
    def total(cls, counts: Iterable[AlignmentCounts]) -> AlignmentCounts:
        """What several have counted, each for itself."""
        whole = cls()
        for each in counts:
            whole.tokens += each.tokens
            whole.hits.update(each.hits)
        return whole

    def metrics(self) -> dict[str, Any]:
        """The best head's accuracy, its name, and every head's; nothing without copied tokens or without heads."""
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
