from __future__ import annotations

import json
from pathlib import Path

import pytest

from dialog.comparison.decisions.primary import (
    check_measured,
    check_primary,
    default_primary,
    metrics_to_test,
)
from dialog.errors import UserError


def test_one_metric_of_each_quantity_is_tested() -> None:
    metrics = [
        *("bits_per_byte", "perplexity_word", "perplexity_token", "token_accuracy", "f1"),
        *("sacrebleu", "bleu_4", "distinct_1", "length_mean", "my_lab.Own"),
    ]
    tested = ["bits_per_byte", "token_accuracy", "f1", "sacrebleu"]
    assert metrics_to_test(metrics, "bits_per_byte") == tested
    assert metrics_to_test(metrics, "f1") == ["f1", "bits_per_byte", "token_accuracy", "sacrebleu"]
    assert metrics_to_test(metrics, "perplexity_word")[0] == "perplexity_word"
    assert "bits_per_byte" not in metrics_to_test(metrics, "perplexity_word")
    assert metrics_to_test(["bleu_4"], "f1") == ["bleu_4"]


@pytest.mark.parametrize("metric", ["bits", "length_mean", "mauve", "calibration_error"])
def test_a_primary_metric_decides(metric: str) -> None:
    check_primary("f1")
    with pytest.raises(UserError, match=rf"--primary {metric}: .*bits_per_byte"):
        check_primary(metric)


def test_files_without_likelihood_have_f1(tmp_path: Path) -> None:
    plain = tmp_path / "plain.jsonl"
    scored = tmp_path / "scored.jsonl"
    plain.write_text(json.dumps({"response": "hi"}) + "\n", encoding="utf-8")
    scored.write_text(json.dumps({"response": "hi", "nll": 3.0}) + "\n", encoding="utf-8")
    assert default_primary([]) == default_primary([scored]) == "bits_per_byte"
    assert default_primary([scored, plain]) == "f1"
    check_measured("f1", [plain])
    with pytest.raises(UserError, match=r"plain\.jsonl: .*bits_per_byte"):
        check_measured("bits_per_byte", [scored, plain])
