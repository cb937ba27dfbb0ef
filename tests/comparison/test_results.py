from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dialog.comparison.results import draw_samples, select_sample
from dialog.escaping import to_json


def test_samples_without_contexts(tmp_path: Path) -> None:
    folder = tmp_path / "evaluation" / "test"
    folder.mkdir(parents=True)
    rows = [{"id": str(place), "context": [], "reference": "Hi", "response": "Ho"} for place in range(3)]
    (folder / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert [sample["id"] for sample in draw_samples([folder])] == ["0", "1", "2"]


def test_numbers_that_are_not_finite_are_null() -> None:
    read = json.loads(to_json({"a": [float("nan"), 1.5], "b": {"c": float("-inf"), "d": "NaN"}}))
    assert read == {"a": [None, 1.5], "b": {"c": None, "d": "NaN"}}


def test_attention_is_shown_for_a_correct_response() -> None:
    def sample(context: int, *responses: str) -> dict[str, Any]:
        return {"id": str(context), "context": ["Hi"] * context, "reference": "Ten .", "responses": list(responses)}

    correct, longer, wrong = sample(2, "Ten .", "Ten ."), sample(3, "Ten .", "Ten ."), sample(9, "Ten .", "Two .")
    rambling = sample(10, "and so on " * 9, "Two .")
    assert select_sample([wrong, correct, longer, rambling]) == longer
    assert select_sample([rambling, wrong]) == wrong
    assert select_sample([rambling]) == rambling
