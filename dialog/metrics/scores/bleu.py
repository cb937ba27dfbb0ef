"""BLEU of a corpus with the sacrebleu library's tokenization, in [0, 100]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from dialog.metrics.scores.additive import Numbers, ResponseScore
from dialog.metrics.words import SCRIPTS, UNDETERMINED

ORDER = 4
"""Longest n-gram that is counted."""


class SacreBLEUScore(ResponseScore):
    """Corpus BLEU-4 = 100 * BP * (p_1 p_2 p_3 p_4)^(1/4) against one reference per response.

    BP is the brevity penalty, p_n the clipped n-gram precision of the corpus (Papineni et al. 2002,
    ACL), with the sacrebleu library's tokenization and exponential smoothing (Post 2018, WMT); 0
    without responses.

    Args:
        tokenize: A tokenization of sacrebleu; None chooses it by the language.
        lowercase: Whether to ignore case.
        language: ISO 639-1 code: zh uses "zh", ja "ja-mecab" if mecab-python3 and ipadic are
            installed, a language without spaces otherwise "char", all others "13a".
    """

    higher_is_better: bool | None = True
    size = 2 + 2 * ORDER
    order = ORDER

    def __init__(
        self,
        tokenize: str | None = None,
        lowercase: bool = False,
        language: str = UNDETERMINED,
        **options: Any,
    ) -> None:
        from sacrebleu.metrics.bleu import BLEU as LIBRARY

        super().__init__(**options)
        tokenize = tokenize or tokenization(language)
        if tokenize not in LIBRARY.TOKENIZERS:
            raise ValueError(
                f"tokenize is {tokenize!r}; choose from {', '.join(sorted(LIBRARY.TOKENIZERS))}"
            )
        # force: dialogue corpora are tokenized, which the library would warn about at every call
        self.tokenize = tokenize
        self.bleu = LIBRARY(
            tokenize=tokenize, lowercase=lowercase, max_ngram_order=self.order, force=True
        )

    def statistics(self, response: str, reference: str) -> tuple[int, ...]:
        """Return the lengths of response and reference, 4 counts of matching n-grams, and 4 of all
        n-grams.
        """
        if self.bleu.lowercase:
            response = response.lower()
            reference = reference.lower()
        return matching_ngrams(self.tokenize, response, reference)

    def statistics_of_several(self, response: str, references: Sequence[str]) -> Sequence[float]:
        """Return the statistics against several references: the closest length, of two equally
        close ones the shorter, and n-grams that occur in any of them.
        """
        texts = [text.lower() if self.bleu.lowercase else text for text in (response, *references)]
        own, *golds = (tokenizer(self.tokenize)(text.rstrip()).split() for text in texts)
        matches = [
            sum(
                min(count, max(gold[ngram] for gold in others))
                for ngram, count in ngrams(own, n).items()
            )
            for n in range(1, ORDER + 1)
            for others in [[ngrams(gold, n) for gold in golds]]
        ]
        closest = min(map(len, golds), key=lambda length: (abs(length - len(own)), length))
        return len(own), closest, *matches, *(max(0, len(own) - n) for n in range(ORDER))

    def value(self, *sums: Numbers) -> Numbers:
        """Return BLEU: an order without a match has the precision 1 / (2^k * n-grams), k such
        orders up to it.
        """
        response_length, reference_length, *counts = np.broadcast_arrays(*map(np.asarray, sums))
        matches = np.stack(counts[: self.order])
        totals = np.stack(counts[ORDER : ORDER + self.order])
        zero = matches == 0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            precisions = 100.0 * np.where(zero, 0.5 ** zero.cumsum(0), matches) / totals
            penalty = np.exp(np.minimum(0, 1 - reference_length / response_length))
            score = penalty * np.exp(np.log(precisions).sum(0) / self.order)
        return np.where((totals > 0).all(0) & ~zero.all(0), score, 0.0)[()]

    @property
    def signature(self) -> str:
        """The settings, as sacrebleu prints them; the tokenization is `tok`."""
        self.bleu.corpus_score([""], [[""]] * self.number)  # sets the number of references
        return str(self.bleu.get_signature())


class BLEUScore(SacreBLEUScore):
    """Corpus BLEU-n: as `sacrebleu`, with n-grams of at most n words.

    Args:
        n: Words of the longest n-gram, 1 to 4.
        tokenize: A tokenization of sacrebleu; None chooses it by the language.
        lowercase: Whether to ignore case.
        language: ISO 639-1 code, as for `sacrebleu`.
    """

    def __init__(
        self,
        n: int,
        tokenize: str | None = None,
        lowercase: bool = False,
        language: str = UNDETERMINED,
        **options: Any,
    ) -> None:
        if not 1 <= n <= ORDER:
            raise ValueError(f"n is {n}; give 1 to {ORDER}")
        self.order = n
        super().__init__(tokenize, lowercase, language, **options)


def tokenization(language: str) -> str:
    """Return sacrebleu's tokenization for a language."""
    if language == "ja" and find_spec("MeCab") and find_spec("ipadic"):
        return "ja-mecab"
    return "zh" if language == "zh" else "char" if language in SCRIPTS else "13a"


@lru_cache(maxsize=8192)
def matching_ngrams(tokenize: str, response: str, reference: str) -> tuple[int, ...]:
    """Return the statistics of `SacreBLEUScore`; remembered, since the metrics of all orders need
    them.
    """
    own, gold = (tokenizer(tokenize)(text.rstrip()).split() for text in (response, reference))
    return (
        len(own),
        len(gold),
        *shared_ngrams(own, gold, ORDER),
        *(max(0, len(own) - n) for n in range(ORDER)),
    )


def shared_ngrams(own: Sequence[str], gold: Sequence[str], order: int) -> list[int]:
    """Return the number of n-grams that two texts share, for n = 1 to ``order``; repeated ones as
    often as in both.

    Texts without a shared n-gram share no longer one, so these are not counted.
    """
    shared = [0] * order
    for n in range(1, order + 1):
        first = ngrams(own, n)
        second = ngrams(gold, n)
        shared[n - 1] = sum(
            [min(count, second[ngram]) for ngram, count in first.items() if ngram in second]
        )
        if not shared[n - 1]:
            break
    return shared


@cache
def tokenizer(name: str) -> Callable[[str], str]:
    """Return a tokenizer of sacrebleu."""
    from sacrebleu.metrics.bleu import BLEU as LIBRARY

    function: Callable[[str], str] = LIBRARY(tokenize=name, force=True).tokenizer
    return function


def ngrams(tokens: Sequence[Any], n: int) -> Counter[tuple[Any, ...]]:
    """Count the n-grams of a response."""
    return Counter(zip(*(tokens[start:] for start in range(n)), strict=False))
