from __future__ import annotations

import json

import pytest

from dialog.metrics import METRICS

TEXTS = ["how are you ?", "fine , thank you .", ""]


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_returns_json_numbers(name: str) -> None:
    value = METRICS[name](TEXTS, TEXTS[::-1])
    assert json.loads(json.dumps(value, allow_nan=False)) == value
    score = value["score"] if isinstance(value, dict) else value
    assert isinstance(score, float)
    assert METRICS[name]([], []) is not None
