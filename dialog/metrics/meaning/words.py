"""Metrics of single words: METEOR and the embedding average.

metrics: [{name: meteor}, {name: embedding_average, vectors: glove.6B.50d.txt}]
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dialog.errors import install
from dialog.metrics.overlap import MeanOverlap
from dialog.metrics.words import words


class Meteor(MeanOverlap):
    """METEOR = mean over responses of 100 * NLTK's METEOR, lower-cased.

    Banerjee & Lavie (2005), ACL workshop.

    It needs the package nltk, of the extra `meaning`, and its WordNet files:
    `python -m nltk.downloader wordnet`. NLTK looks for synonyms of stems, not of words.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        try:
            import_module("nltk.corpus").wordnet.ensure_loaded()
            self.meteor = import_module("nltk.translate.meteor_score").single_meteor_score
        except (ImportError, LookupError, OSError) as error:
            raise ValueError(
                f"needs nltk and WordNet; run {install('meaning')}, "
                "then python -m nltk.downloader wordnet"
            ) from error

    def score(self, response: str, reference: str) -> float:
        """Return the METEOR of a response in [0, 1]."""
        return float(self.meteor(words(reference.lower()), words(response.lower())))


class EmbeddingAverage(MeanOverlap):
    """Embedding average = mean over responses of 100 * cosine of the mean word vectors of response
    and reference.

    Liu et al. (2016), EMNLP. Words are lower-cased; those without a vector are left out; without
    any, the score is 0.

    Args:
        vectors: File with a word and its numbers in each line, separated by spaces, as of GloVe and
            fastText.
    """

    def __init__(self, vectors: str, **options: Any) -> None:
        super().__init__(**options)
        self.vectors = read_vectors(Path(vectors))

    def score(self, response: str, reference: str) -> float:
        """Return the cosine of a response, in [-1, 1]."""
        own = self._mean(response)
        gold = self._mean(reference)
        norms = float(np.linalg.norm(own) * np.linalg.norm(gold))
        return float(own @ gold) / norms if norms else 0.0

    def _mean(self, text: str) -> NDArray[np.float64]:
        rows = [self.vectors[word] for word in words(text.lower()) if word in self.vectors]
        size = len(next(iter(self.vectors.values())))
        return np.mean(rows, axis=0, dtype=np.float64) if rows else np.zeros(size)


def read_vectors(path: Path) -> dict[str, NDArray[np.float32]]:
    """Read word vectors in text format; a first line with two numbers is a header.

    Raises:
        ValueError: the file is missing, or a line has another number of values.
    """
    vectors: dict[str, NDArray[np.float32]] = {}
    size = 0
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                word, *values = line.rstrip().split(" ")
                if number == 1 and len(values) == 1:
                    continue
                size = size or len(values)
                if len(values) != size or not size:
                    raise ValueError(
                        f"{path}:{number}: {len(values)} numbers; expected {size or 'some'}"
                    )
                vectors[word] = np.array(values, dtype=np.float32)
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror}; give a file of word vectors") from error
    if not vectors:
        raise ValueError(f"{path}: no word vectors")
    return vectors
