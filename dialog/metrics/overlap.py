"""How much of the references the responses share, in points of 100."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence

_PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, " "))
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def f1(responses: Sequence[str], references: Sequence[str]) -> float:
    """Mean over responses of 100 * 2 P R / (P + R), P and R the shared words over those of response and reference.

    Words are counted with their repetitions, after ParlAI's normalisation (parlai/core/metrics.py): lower case, ASCII
    punctuation to spaces, English articles dropped, split on white space. Nothing shared is 0, and so is no response.

    Raises:
        ValueError: not one reference a response.
    """
    scores = [_f1(_words(ours), _words(theirs)) for ours, theirs in zip(responses, references, strict=True)]
    return 100 * math.fsum(scores) / max(len(scores), 1)


def sacrebleu(
    responses: Sequence[str], references: Sequence[str], *, tokenize: str = "13a", lowercase: bool = False
) -> dict[str, float | str]:
    """Corpus BLEU-4 by the sacrebleu library, one reference a response: `score`, and the `signature` of its settings.

    No response at all scores 0.

    Raises:
        ValueError: not one reference a response.
    """
    from sacrebleu.metrics.bleu import BLEU  # 0.2 s that only an evaluation should pay

    if len(responses) != len(references):
        raise ValueError(f"{len(responses)} responses for {len(references)} references")
    # force: dialogue corpora come tokenised, and the library would warn about that with every call
    bleu = BLEU(tokenize=tokenize, lowercase=lowercase, force=True)
    score = bleu.corpus_score(list(responses) or [""], [list(references) or [""]]).score
    return {"score": score, "signature": str(bleu.get_signature())}


def _words(text: str) -> Counter[str]:
    return Counter(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def _f1(ours: Counter[str], theirs: Counter[str]) -> float:
    shared = (ours & theirs).total()
    return 2 * shared / (ours.total() + theirs.total()) if shared else 0.0
