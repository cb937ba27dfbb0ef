"""Word and n-gram overlap of responses with their references, in [0, 100]."""

from __future__ import annotations

import re
import string
from collections import Counter
from importlib.util import find_spec
from typing import Any

from dialog.metrics.additive import ResponseMetric, ratio
from dialog.metrics.words import SCRIPTS, UNDETERMINED, words

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

    def value(self, f1: float, responses: float) -> float:
        """Return the mean in percent."""
        return 100 * ratio(f1, responses, empty=0.0)


class SacreBLEU(ResponseMetric):
    """Corpus BLEU-4 = 100 * BP * (p_1 p_2 p_3 p_4)^(1/4) against one reference per response.

    BP is the brevity penalty, p_n the clipped n-gram precision of the corpus (Papineni et al. 2002, ACL), with the
    sacrebleu library's tokenization and exponential smoothing (Post 2018, WMT); 0 without responses.

    Args:
        tokenize: A tokenization of sacrebleu; None chooses it by the language.
        lowercase: Whether to ignore case.
        language: ISO 639-1 code: zh uses "zh", ja "ja-mecab" if mecab-python3 and ipadic are installed, a language
            without spaces otherwise "char", all others "13a".
    """

    higher_is_better = True
    size = 10

    def __init__(
        self,
        tokenize: str | None = None,
        lowercase: bool = False,
        language: str = UNDETERMINED,
        **options: Any,  # noqa: ANN401 - of torchmetrics.Metric
    ) -> None:
        from sacrebleu.metrics.bleu import BLEU  # the import takes 0.2 s

        super().__init__(**options)
        tokenize = tokenize or tokenization(language)
        if tokenize not in BLEU.TOKENIZERS:
            raise ValueError(f"tokenize is {tokenize!r}; choose from {', '.join(sorted(BLEU.TOKENIZERS))}")
        # force: dialogue corpora are tokenized, which the library would warn about at every call
        self.bleu = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)

    def statistics(self, response: str, reference: str) -> list[float]:
        """Return the lengths of response and reference, 4 counts of matching n-grams, and 4 of all n-grams."""
        score = self.bleu.corpus_score([response], [[reference]])
        return [score.sys_len, score.ref_len, *score.counts, *score.totals]

    def value(self, *sums: float) -> float:
        """Return BLEU."""
        response_length, reference_length, *counts = map(int, sums)
        lengths = response_length, reference_length
        return float(self.bleu.compute_bleu(counts[:4], counts[4:], *lengths, smooth_method="exp").score)

    @property
    def signature(self) -> str:
        """The settings, as sacrebleu prints them; the tokenization is `tok`."""
        self.bleu.corpus_score([""], [[""]])  # sets the number of references
        return str(self.bleu.get_signature())


def tokenization(language: str) -> str:
    """Return sacrebleu's tokenization for a language."""
    if language == "ja" and find_spec("MeCab") and find_spec("ipadic"):
        return "ja-mecab"
    return "zh" if language == "zh" else "char" if language in SCRIPTS else "13a"


def _counts(text: str) -> Counter[str]:
    return Counter(words(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION))))
