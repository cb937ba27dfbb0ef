"""Summaries of the shipped recipes: those of the composed recipes, with results that the records
have.
"""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from dialog.config.compose import compose
from dialog.recipes.summaries import summaries
from dialog.report.formats.metrics import metric_at

ROWS = {row["name"]: row for row in summaries()}
RECORDS = Path(__file__).parents[2] / "benchmarks" / "results" / "records"
RECORDED: list[dict[str, Any]] = [
    row
    for path in RECORDS.rglob("*.json")
    for row in json.loads(path.read_text(encoding="utf-8"))["recipes"]
]
MEASURED = [(name, item) for name, row in ROWS.items() for item in row["expect"] if "seeds" in item]


@pytest.mark.parametrize("name", ROWS)
def test_a_summary_is_that_of_the_composed_recipe(name: str) -> None:
    recipe = compose(name).recipe
    assert ROWS[name] == {
        "name": name,
        "summary": recipe.about.summary,
        "corpus": recipe.data.corpus["name"],
        "encoder": recipe.model.encoder["name"],
        "decoder": recipe.model.decoder["name"],
        "parameters": recipe.about.parameters,
        "cost": recipe.about.cost,
        "expect": recipe.expect,
    }


@pytest.mark.parametrize(
    ("name", "item"), MEASURED, ids=[f"{name} {item['metric']}" for name, item in MEASURED]
)
def test_expected_results_are_recorded(name: str, item: dict[str, Any]) -> None:
    """A record has runs of the recipe at these commits, whose mean is the expected value."""
    places = len(str(item["value"]).partition(".")[2])
    commits = item["commit"] if isinstance(item["commit"], list) else [item["commit"]]
    means = []
    for row in RECORDED:
        runs = row["runs"] if row["recipe"] == name and not row["overrides"] else []
        values = [
            metric_at(run["metrics"], item["metric"])
            for run in runs
            if set(run["commits"]) <= set(commits)
        ]
        measured = [value for value in values if value is not None]
        if len(measured) == item["seeds"]:
            means.append(round(fmean(measured), places))
    assert item["value"] in means


def test_nested_metrics_and_scores() -> None:
    metrics = {
        "parlai_sets": {"S1": 29.5},
        "sacrebleu": {"score": 3, "signature": "x"},
        "lossless": True,
    }
    assert metric_at(metrics, "parlai_sets.S1") == 29.5
    assert metric_at(metrics, "sacrebleu") == 3.0
    assert (
        metric_at(metrics, "parlai_sets")
        is metric_at(metrics, "lossless")
        is metric_at(metrics, "f1.x")
        is None
    )
