"""Word and n-gram overlap of responses with their references, in [0, 100]."""

from __future__ import annotations

import re
import string
from collections import Counter

from dialog.metrics.additive import Numbers, ResponseMetric, ratio
from dialog.metrics.words import words

_WIDE = "、。〃〈〉《》「」『』【】〔〕〖〗〘〙〚〛〜〝〞〟・！＂＃＄％＆＇（）＊＋，－．／：；＜＝＞？＠［＼］＾＿｀｛｜｝～｟｠｡｢｣､･"  # noqa: E501
"""Punctuation of Chinese and Japanese."""
_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation + _WIDE, " "))
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


class F1(ResponseMetric):
    """Unigram F1 = mean over responses of 100 * 2 P R / (P + R), with multisets of words as in ParlAI.

    P = shared words / words of the response, R = shared words / words of the reference; 0 without shared words, and
    without responses. Normalisation as in parlai/core/metrics.py: lower case, punctuation (ASCII, Chinese and Japanese)
    to spaces, English articles removed. Words are split at white space; each letter of a script without spaces is one.
    """

    higher_is_better = True
    size = 2

    def statistics(self, response: str, reference: str) -> tuple[float, float]:
        """Return the F1 of a response in [0, 1], and 1."""
        own, gold = _counts(response), _counts(reference)
        shared = (own & gold).total()
        return (2 * shared / (own.total() + gold.total()) if shared else 0.0), 1

    def value(self, f1: Numbers, responses: Numbers) -> Numbers:
        """Return the mean in percent."""
        return 100 * ratio(f1, responses, empty=0.0)


def _counts(text: str) -> Counter[str]:
    return Counter(words(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION))))
