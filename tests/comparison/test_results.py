from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dialog.comparison.results import draw_samples, learning_curve, select_sample
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


def test_target_tokens_of_validations_are_interpolated(tmp_path: Path) -> None:
    """Tokens are logged at steps 2 and 4, validations come at 3 and 5; training ended at step 5."""
    lines: list[dict[str, Any]] = [
        {"step": 2, "train/loss": 1.0, "train/tokens": 100.0},
        {"step": 3, "validation/bits_per_byte": 2.0},
        {"step": 4, "train/loss": 1.0, "train/tokens": 220.0},
        {"step": 4, "lr": 1.0},
        {"step": 5, "validation/bits_per_byte": 1.0},
    ]
    content = "".join(json.dumps({"epoch": 0, "time": line["step"] * 2.0, **line}) + "\n" for line in lines)
    (tmp_path / "metrics.jsonl").write_text(content, encoding="utf-8")
    assert [point["target_tokens"] for point in learning_curve(tmp_path)] == [100, 160, 220, 220]
    summary = {"seconds": 10.0, "steps": 5, "target_tokens": 290}
    (tmp_path / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    points = learning_curve(tmp_path)
    assert [point["target_tokens"] for point in points] == [100, 160, 220, 290]
    assert [point["validation/bits_per_byte"] for point in points] == [None, 2.0, None, 1.0]
