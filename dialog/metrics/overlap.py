"""Word and n-gram overlap of responses with their references, in [0, 100]."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence

_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " "))
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def f1(responses: Sequence[str], references: Sequence[str]) -> float:
    """Unigram F1 = mean over responses of 100 * 2 P R / (P + R), with multisets of words as in ParlAI.

    P = shared words / words of the response, R = shared words / words of the reference; 0 without shared words, and
    without responses. Normalisation as in parlai/core/metrics.py: lower case, ASCII punctuation to spaces, English
    articles removed, split at white space.

    Raises:
        ValueError: the numbers of responses and references differ.
    """
    pairs = zip(responses, references, strict=True)
    scores = [_f1(_words(response), _words(reference)) for response, reference in pairs]
    return 100 * math.fsum(scores) / max(len(scores), 1)


def sacrebleu(
    responses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a", lowercase: bool = False
) -> dict[str, float | str]:
    """Corpus BLEU-4 = 100 * BP * (p_1 p_2 p_3 p_4)^(1/4) against one reference: `score` and `signature` (settings).

    BP is the brevity penalty, p_n the clipped n-gram precision of the corpus (Papineni et al. 2002, ACL), with the
    sacrebleu library's tokenisation and exponential smoothing (Post 2018, WMT); 0 without responses.

    Raises:
        ValueError: the numbers of responses and references differ.
    """
    from sacrebleu.metrics.bleu import BLEU  # the import takes 0.2 s

    if len(responses) != len(references):
        raise ValueError(f"{len(responses)} responses for {len(references)} references")
    # force: dialogue corpora are tokenised, which the library would warn about at every call
    bleu = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    score = bleu.corpus_score(list(responses) or [""], [list(references) or [""]]).score
    return {"score": score, "signature": str(bleu.get_signature())}


def _words(text: str) -> Counter[str]:
    return Counter(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _f1(response: Counter[str], reference: Counter[str]) -> float:
    shared = (response & reference).total()
    return 2 * shared / (response.total() + reference.total()) if shared else 0.0
