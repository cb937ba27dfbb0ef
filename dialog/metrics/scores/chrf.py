"""chrF of a corpus, in [0, 100]."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from dialog.metrics.scores.additive import Numbers, ResponseScore

ORDER = 6
BETA = 2


class ChrFScore(ResponseScore):
    """chrF2 = 100 * (1 + 4) P R / (4 P + R) of character n-grams against one reference.

    Popovic (2015), WMT.

    P and R are the means over n = 1 to 6 of matching n-grams / n-grams of the responses, and of the
    references, over the whole corpus; white space is removed. An order without n-grams on either
    side is left out. Equal to the sacrebleu library; 0 without responses. Longer responses score
    higher: random ones of DailyDialog 11.5.

    Args:
        lowercase: Whether to ignore case.
    """

    higher_is_better: bool | None = True
    size = 3 * ORDER

    def __init__(self, lowercase: bool = False, **options: Any) -> None:
        from sacrebleu.metrics.chrf import CHRF  # the import takes 0.2 s

        super().__init__(**options)
        self.chrf = CHRF(char_order=ORDER, beta=BETA, lowercase=lowercase)

    def statistics(self, response: str, reference: str) -> list[int]:
        """Return for each n the n-grams of the response, of the reference, and the matching
        ones.
        """
        texts = [self._characters(text) for text in (response, reference)]
        row: list[int] = []
        matches = 1
        for n in range(1, ORDER + 1):
            if matches:  # texts that share no n-gram share no longer one
                first, second = (
                    Counter([text[start : start + n] for start in range(len(text) - n + 1)])
                    for text in texts
                )
                matches = sum(
                    [min(count, second[ngram]) for ngram, count in first.items() if ngram in second]
                )
            sizes = [max(0, len(text) - n + 1) for text in texts]
            row += [sizes[0] if sizes[1] else 0, sizes[1], matches]
        return row

    def value(self, *sums: Numbers) -> Numbers:
        """Return chrF."""
        response, reference, matches = (
            np.stack(np.broadcast_arrays(*sums))
            .reshape(ORDER, 3, *np.shape(sums[0]))
            .swapaxes(0, 1)
        )
        used = (response > 0) & (reference > 0)
        orders = np.maximum(used.sum(0), 1)
        precision = np.where(used, matches / np.maximum(response, 1), 0).sum(0) / orders
        recall = np.where(used, matches / np.maximum(reference, 1), 0).sum(0) / orders
        weighted = BETA**2 * precision + recall
        return (100 * (1 + BETA**2) * precision * recall / np.where(weighted, weighted, 1))[()]

    @property
    def signature(self) -> str:
        """The settings, as sacrebleu prints them."""
        self.chrf.corpus_score([""], [[""]] * self.number)  # sets the number of references
        return str(self.chrf.get_signature())

    def _characters(self, text: str) -> str:
        return "".join((text.lower() if self.chrf.lowercase else text).split())
