from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from dialog.escaping import json_copy
from dialog.report.formats.results import results_of_json
from dialog.report.short_names import UNNAMED, displayed, short_labels


@pytest.mark.parametrize(
    ("names", "shared", "labels"),
    [
        (["task/lstm", "task/gru"], "task", ["lstm", "gru"]),
        (["task/a/lstm", "task/b/lstm"], "task", ["a/lstm", "b/lstm"]),
        (["task/lstm", "tasks/lstm"], "", ["task/lstm", "tasks/lstm"]),
        (
            ["t/lstm[attention=dot]", "t/lstm[attention=none]"],
            "t/lstm",
            ["attention=dot", "attention=none"],
        ),
        (["t/lstm", "t/lstm[attention=none]"], "t", ["lstm", "lstm[attention=none]"]),
        (["t/lstm[a=1]", "t/gru[a=1]"], "t", ["lstm[a=1]", "gru[a=1]"]),
        (["lstm"], "", ["lstm"]),
        (["runs/daily-lstm_luong", "runs/daily-gru"], "runs/daily", ["lstm_luong", "gru"]),
        (["daily-lstm", "daily-lstm-big"], "daily", ["lstm", "lstm-big"]),
        (["lstm", "lstm-big"], "", ["lstm", "lstm-big"]),
        (
            ["t/lstm-a[x=1-2]", "t/lstm-a[x=1-3]", "t/lstm-b"],
            "t/lstm",
            ["a[x=1-2]", "a[x=1-3]", "b"],
        ),
    ],
)
def test_short_names_lack_what_all_share(names: list[str], shared: str, labels: list[str]) -> None:
    assert short_labels(names) == (shared, labels)


def test_labels_are_not_shortened_again(results_of: Callable[..., dict[str, Any]]) -> None:
    results = results_of(("a-a-b", "a-b"))
    results["warnings"] = ["a-a-b and a-b diverged."]
    assert displayed(results_of_json(results)).warnings == ("a-b and b diverged.",)


def test_names_that_the_user_gave_stay(results_of: Callable[..., dict[str, Any]]) -> None:
    shown = displayed(results_of_json(results_of(("tiny-a",), responses="tiny-b")))
    assert (shown.names, shown.shared) == (["tiny-a", "tiny-b"], "")


def test_names_are_short_everywhere_but_in_texts_of_users(
    results_of: Callable[..., dict[str, Any]],
) -> None:
    """All pages show short names; a response that contains a name keeps it."""
    names = ("task/lstm", "task/lstm[dropout=0]", "task/transformer")
    results = results_of(names, text="about task/lstm")
    results["attention"]["examples"][0]["models"][0]["response_tokens"] = ["task/lstm"]
    shown = json_copy(displayed(results_of_json(results)))
    attention = shown["attention"]["examples"][0]["models"]
    assert attention[0]["response_tokens"] == ["task/lstm"]
    assert [entry["model"] for entry in attention[:2]] == ["lstm", "lstm[dropout=0]"]
    unnamed = [key for key in UNNAMED if key != "attention"]
    written = json_copy(results_of_json(results))
    assert {key: shown[key] for key in unnamed} == {key: written[key] for key in unnamed}
    others = json.dumps({key: value for key, value in shown.items() if key not in UNNAMED})
    assert "task/lstm" not in others.replace("about task/lstm", "")
    assert shown["shared"] == "task"
    assert "lstm[dropout=0]" in shown["verdict"]


def test_labels_do_not_replace_parts_of_paths(results: dict[str, Any]) -> None:
    first, *others = [model["name"] for model in results["models"]]
    names = {name: f"task/{name}" for name in (first, *others)}
    renamed = json.loads(json.dumps(results))
    for model in renamed["models"]:
        model["name"] = names[model["name"]]
    warning = f"task/{first}: c/runs/task/{first}/seed-1/model.safetensors has changed"
    assert displayed(results_of_json({**renamed, "warnings": [warning]})).warnings == (
        f"{first}: c/runs/task/{first}/seed-1/model.safetensors has changed",
    )
