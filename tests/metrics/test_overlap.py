from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import pytest
import sacrebleu as library
from hypothesis import given
from hypothesis import strategies as st

from dialog.metrics import F1, SacreBLEU
from dialog.metrics.overlap import tokenization

texts = st.lists(st.text(st.sampled_from("ab ,.\n")), min_size=1, max_size=6)


def f1(responses: Sequence[str], references: Sequence[str]) -> float:
    metric = F1()
    metric.update(responses, references)
    return metric.compute().item()


def sacrebleu(responses: Sequence[str], references: Sequence[str], **settings: Any) -> dict[str, Any]:  # noqa: ANN401 - its arguments
    metric = SacreBLEU(**settings)
    metric.update(responses, references)
    return {"score": metric.compute().item(), "signature": metric.signature}


def score(response: str, reference: str) -> float:
    return f1([response], [reference])


def test_f1_worked_by_hand() -> None:
    # 2 shared of 3 and of 4 words
    assert score("see you there", "you will see him") == pytest.approx(100 * 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))


def test_f1_counts_repetitions() -> None:
    assert score("no no no", "no no yes") == pytest.approx(100 * 2 / 3)


def test_f1_ignores_case_articles_and_punctuation() -> None:
    assert score("The cat, AN owl!", "cat owl a") == 100
    assert score("don't", "don t") == 100  # punctuation becomes a space; SQuAD's F1 deletes it
    assert score("theatre", "atre") == 0  # articles are whole words


def test_f1_of_chinese_is_of_characters() -> None:
    assert score("我想去北京。", "我想去上海！") == pytest.approx(60)


def test_f1_without_shared_words() -> None:
    assert score("", "hello") == score("hello", "") == score("", "") == score("the !", "a ?") == 0
    assert f1([], []) == 0


@given(texts)
def test_f1_is_symmetric_bounded_and_full_for_a_copy(responses: list[str]) -> None:
    backwards = responses[::-1]
    assert f1(responses, backwards) == f1(backwards, responses)
    assert 0 <= f1(responses, backwards) <= 100
    nonempty = [text for text in responses if "b" in text]
    assert not nonempty or f1(nonempty, nonempty) == 100


def test_f1_is_a_mean_over_responses() -> None:
    assert f1(["yes", "no"], ["yes", "maybe not"]) == 50


@pytest.mark.parametrize("metric", [f1, sacrebleu])
def test_each_response_needs_its_reference(metric: object) -> None:
    with pytest.raises(ValueError, match="shorter"):
        metric(["a", "b"], ["a"])


RESPONSES = ["i don ' t know .", "How may I help you ?", "thank you very much for the help .", ""]
REFERENCES = ["i do not know yet .", "how may i help you today ?", "thank you very much .", "bye !"]


@pytest.mark.parametrize("tokenize", ["13a", "none", "char", "intl", "zh"])
@pytest.mark.parametrize("lowercase", [False, True])
def test_bleu_equals_the_library(tokenize: str, lowercase: bool) -> None:
    expected = library.corpus_bleu(RESPONSES, [REFERENCES], tokenize=tokenize, lowercase=lowercase, force=True)
    result = sacrebleu(RESPONSES, REFERENCES, tokenize=tokenize, lowercase=lowercase)
    assert result["score"] == pytest.approx(expected.score, abs=1e-12)
    assert f"tok:{tokenize}|" in str(result["signature"])
    assert ("case:lc" if lowercase else "case:mixed") in str(result["signature"])
    assert "nrefs:1" in str(result["signature"])


SIMILAR = ["我想找一家价格在一百元以内的餐馆。"], ["我想找一家价格在两百元以内的餐馆。"]


def test_bleu_chooses_the_tokenization_by_the_language() -> None:
    """13a scores two nearly identical Chinese sentences 0."""
    assert sacrebleu(*SIMILAR)["score"] == 0
    chinese = sacrebleu(*SIMILAR, language="zh")
    assert chinese["score"] == library.corpus_bleu(SIMILAR[0], [SIMILAR[1]], tokenize="zh").score > 80
    assert "tok:zh|" in chinese["signature"]
    assert "tok:char|" in sacrebleu(*SIMILAR, tokenize="char", language="zh")["signature"]


@pytest.mark.parametrize("installed", [True, False])
def test_japanese_needs_mecab(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    monkeypatch.setattr("dialog.metrics.overlap.find_spec", lambda name: installed or None)
    assert tokenization("ja") == ("ja-mecab" if installed else "char")
    assert [tokenization(language) for language in ("zh", "th", "und", "de")] == ["zh", "char", "13a", "13a"]


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
