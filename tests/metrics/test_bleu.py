"""Corpus BLEU equals the sacrebleu library, also of resampled corpora."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import sacrebleu as library
from hypothesis import given
from hypothesis import strategies as st

from dialog.metrics import BLEU, F1, SacreBLEU
from dialog.metrics.overlap import ChrF
from dialog.metrics.scores.bleu import tokenization


def sacrebleu(
    responses: Sequence[str],
    references: Sequence[str],
    **settings: Any,
) -> dict[str, Any]:
    metric = SacreBLEU(**settings)
    metric.update(responses, references)
    return {"score": metric.compute().item(), "signature": metric.signature}


RESPONSES = ["i don ' t know .", "How may I help you ?", "thank you very much for the help .", ""]
REFERENCES = ["i do not know yet .", "how may i help you today ?", "thank you very much .", "bye !"]


@pytest.mark.parametrize("tokenize", ["13a", "none", "char", "intl", "zh"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_bleu_equals_the_library(tokenize: str, lowercase: bool) -> None:
    expected = library.corpus_bleu(
        RESPONSES, [REFERENCES], tokenize=tokenize, lowercase=lowercase, force=True
    )
    result = sacrebleu(RESPONSES, REFERENCES, tokenize=tokenize, lowercase=lowercase)
    assert result["score"] == pytest.approx(expected.score, abs=1e-12)
    assert f"tok:{tokenize}|" in str(result["signature"])
    assert ("case:lc" if lowercase else "case:mixed") in str(result["signature"])
    assert "nrefs:1" in str(result["signature"])


def test_several_references_equal_the_library() -> None:
    """Of corpora of BLEU and chrF; F1 is that of the best reference."""
    others = ["i don ' t know", "how can i help you ?", "thank you for the help .", "a , b"]
    pairs = [list(pair) for pair in zip(REFERENCES, others, strict=True)]
    for metric, expected in (
        (SacreBLEU(), library.corpus_bleu(RESPONSES, [REFERENCES, others], force=True).score),
        (ChrF(), library.corpus_chrf(RESPONSES, [REFERENCES, others]).score),
    ):
        metric.update(RESPONSES, pairs)
        assert metric.compute().item() == pytest.approx(expected, abs=1e-12)
        assert "nrefs:2" in metric.signature
    best = F1()
    best.update(["how can i help you ?"], [pairs[1]])
    assert best.compute().item() == 100


SIMILAR = ["我想找一家价格在一百元以内的餐馆。"], ["我想找一家价格在两百元以内的餐馆。"]


def test_bleu_chooses_the_tokenization_by_the_language() -> None:
    """13a scores two nearly identical Chinese sentences 0."""
    assert sacrebleu(*SIMILAR)["score"] == 0
    chinese = sacrebleu(*SIMILAR, language="zh")
    assert (
        chinese["score"] == library.corpus_bleu(SIMILAR[0], [SIMILAR[1]], tokenize="zh").score > 80
    )
    assert "tok:zh|" in chinese["signature"]
    assert "tok:char|" in sacrebleu(*SIMILAR, tokenize="char", language="zh")["signature"]


@pytest.mark.parametrize("installed", [True, False])
def test_japanese_needs_mecab(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    monkeypatch.setattr("dialog.metrics.scores.bleu.find_spec", lambda name: installed or None)
    assert tokenization("ja") == ("ja-mecab" if installed else "char")
    assert [tokenization(language) for language in ("zh", "th", "und", "de")] == [
        "zh",
        "char",
        "13a",
        "13a",
    ]


def test_an_unknown_tokenization_raises() -> None:
    with pytest.raises(ValueError, match="tokenize is '14a'; choose from 13a, char"):
        SacreBLEU("14a")


def test_bleu_of_tokenised_text_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        sacrebleu(["thank you ."] * 200, ["thank you ."] * 200)
    assert not caplog.records


def test_bleu_of_empty_text() -> None:
    assert sacrebleu([], [])["score"] == 0
    assert sacrebleu([""], ["hello"])["score"] == 0


def test_bleu_does_not_change_its_inputs() -> None:
    responses, references = tuple(RESPONSES), tuple(REFERENCES)
    sacrebleu(responses, references)
    assert responses == tuple(RESPONSES)
    assert references == tuple(REFERENCES)


PAIRS = st.lists(
    st.tuples(*[st.lists(st.sampled_from("abc"), max_size=8).map(" ".join)] * 2),
    min_size=1,
    max_size=6,
)


@given(PAIRS, st.integers(1, 4))
def test_bleu_of_any_order_equals_the_library(pairs: list[tuple[str, str]], n: int) -> None:
    """Also without words, without matches, and of texts shorter than n."""
    responses, references = map(list, zip(*pairs, strict=True))
    metric = BLEU(n)
    metric.update(responses, references)
    expected = (
        library.BLEU(max_ngram_order=n, force=True).corpus_score(responses, [references]).score
    )
    assert metric.compute().item() == pytest.approx(expected, abs=1e-9)


def test_resamples_are_scored_from_sums() -> None:
    metric = SacreBLEU()
    statistics = np.asarray(metric.statistics_of(RESPONSES, REFERENCES))
    weights = np.random.default_rng(0).multinomial(4, [0.25] * 4, size=50)  # [R, N]
    values = metric.value(*(weights @ statistics).T)
    for row, value in zip(weights, values, strict=True):
        drawn = np.repeat(np.arange(4), row)
        chosen = [RESPONSES[index] for index in drawn], [[REFERENCES[index] for index in drawn]]
        assert value == pytest.approx(library.corpus_bleu(*chosen, force=True).score, abs=1e-9)


def test_an_unknown_order_raises() -> None:
    with pytest.raises(ValueError, match="n is 5; give 1 to 4"):
        BLEU(5)
