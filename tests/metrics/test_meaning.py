from __future__ import annotations

import math
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from dialog.errors import UserError
from dialog.metrics import build_metrics
from dialog.metrics.meaning.words import EmbeddingAverage, Meteor

VECTORS = "3 2\nyes 1 0\nno 0 1\nmaybe 1 1\n"


def test_embedding_average_worked_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(VECTORS, encoding="utf-8")
    metric = EmbeddingAverage(str(path))
    metric.update(["Yes no", "yes", "yes unknown", "unknown"], ["maybe", "no", "maybe", "yes"])
    assert metric.compute().item() == pytest.approx(100 * (1 + 0 + math.sqrt(0.5) + 0) / 4)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("yes 1 0\nno 1\n", "vectors.txt:2: 1 numbers; expected 2"),
        ("", "vectors.txt: no word vectors"),
        (None, "vectors.txt: No such file or directory; give a file of word vectors"),
    ],
)
def test_invalid_vectors_are_user_errors(tmp_path: Path, content: str | None, message: str) -> None:
    path = tmp_path / "vectors.txt"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError, match=f"embedding_average: .*{message}"):
        build_metrics([{"name": "embedding_average", "vectors": str(path)}])


def test_meteor_is_the_mean_of_nltk_over_lower_cased_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """NLTK's function has the reference first; here it is replaced by one that depends on the
    order.
    """
    corpus = SimpleNamespace(wordnet=SimpleNamespace(ensure_loaded=lambda: None))
    scores = SimpleNamespace(
        single_meteor_score=lambda reference, response: len(reference) / (10 * len(response))
    )
    monkeypatch.setitem(sys.modules, "nltk.corpus", corpus)
    monkeypatch.setitem(sys.modules, "nltk.translate.meteor_score", scores)
    metric = Meteor()
    assert metric.score("Yes", "yes no maybe") == pytest.approx(0.3)
    metric.update(["Yes", "yes no"], ["yes no maybe", "No"])
    assert metric.compute().item() == pytest.approx(100 * (0.3 + 0.05) / 2)


def test_meteor_without_its_package_is_a_user_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nltk.corpus", None)
    with pytest.raises(UserError, match="meteor: needs nltk and WordNet; run pip install"):
        build_metrics([{"name": "meteor"}])
