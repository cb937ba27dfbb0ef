"""The metrics of an evaluation: standard ones, those of a recipe, and those of users."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torchmetrics import Metric

import dialog
from dialog.errors import UserError
from dialog.metrics import Measurement, build_metrics
from dialog.metrics.measurement import results
from dialog.metrics.scores import family
from dialog.metrics.scores.family import key
from dialog.runs.evaluation.evaluate import evaluate

TEXTS = ["how are you ?", "fine , thank you .", ""]
ROWS = [
    {"id": str(place), "response": response, "reference": reference, "context": ["a"], "nll": 3.0}
    | {"train_copy": place % 2, "candidate_rank": place or None}
    | {f"reference_{name}": 4 - place for name in ("tokens", "correct", "words", "bytes")}
    | {f"reference_{name}": 0 for name in ("unknown", "unknown_bytes")}
    for place, (response, reference) in enumerate(zip(TEXTS, TEXTS[::-1], strict=True))
]
STANDARD = {key(component) for component in family.STANDARD}
EXTRA = {"signatures", "left_out"}


class Questions(Metric):
    """Share of responses with a question mark."""

    def __init__(self, mark: str = "?") -> None:
        super().__init__()
        self.mark = mark
        self.add_state("counts", torch.zeros(2), dist_reduce_fx="sum")

    def update(self, responses: Sequence[str]) -> None:
        self.counts += torch.tensor(
            [sum(self.mark in response for response in responses), len(responses)]
        )

    def compute(self) -> torch.Tensor:
        return self.counts[0] / self.counts[1]


class Undefined(Questions):
    def compute(self) -> torch.Tensor:
        return self.counts[0] * torch.nan


class Unfit(Questions):
    def update(self, answers: Sequence[str]) -> None: ...


class NoMetric:
    pass


def measure(*components: dict[str, Any], **options: str) -> dict[str, Any]:
    measurement = Measurement(build_metrics(components, **options))
    measurement.add(ROWS[:2])
    measurement.add(ROWS[2:])
    return results(measurement)


def own(kind: type, **arguments: Any) -> dict[str, Any]:
    return dialog.trusted({"name": f"{__name__}.{kind.__name__}", **arguments})


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of tests is not importable by name."""
    monkeypatch.setattr(
        "dialog.config.components.import_part", lambda name: globals()[name.rpartition(".")[2]]
    )


def test_standard_metrics_are_json_numbers() -> None:
    values = measure()
    assert values.keys() == STANDARD | EXTRA
    assert json.loads(json.dumps(values, allow_nan=False)) == values
    assert all(
        isinstance(values[name]["score"] if name == "sacrebleu" else values[name], float)
        for name in STANDARD
    )
    assert values["sacrebleu"]["signature"] == values["signatures"]["sacrebleu"]
    assert not values["left_out"]


def test_a_recipe_adds_metrics() -> None:
    values = measure({"name": "distinct", "n": 3}, own(Questions))
    assert values.keys() - STANDARD - EXTRA == {"distinct_3", "Questions"}
    assert values["Questions"] == pytest.approx(1 / 3)


def test_a_metric_of_torchmetrics_is_passed_the_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert measure(dialog.trusted({"name": "torchmetrics.text.CharErrorRate"}))["CharErrorRate"] > 0


def test_a_recipe_replaces_a_standard_metric() -> None:
    values = measure({"name": "sacrebleu", "tokenize": "char"}, language="zh")
    assert values.keys() == STANDARD | EXTRA
    assert "tok:char" in values["sacrebleu"]["signature"]
    assert "tok:zh" in measure(language="zh")["sacrebleu"]["signature"]


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ([{"name": "sacrebeu"}], "unknown metric 'sacrebeu'; did you mean 'sacrebleu'"),
        ([{"name": "distinct"}], "distinct: missing required argument: n"),
        ([{"name": "distinct", "n": 0}], "distinct: n is 0; give at least 1"),
        ([{"name": "f1"}, {"name": "f1"}], "f1: listed twice"),
        ([own(Unfit)], "update has unknown arguments answers; choose from responses, references"),
        ([own(NoMetric)], "is no torchmetrics.Metric; derive it"),
    ],
)
def test_invalid_metrics_are_user_errors(components: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(UserError, match=message):
        build_metrics(components)


def test_undefined_metrics_are_absent() -> None:
    """Over all responses with the reason, and over those of a subset: hits of no ranked reference,
    exp(10006 / 9).
    """
    rows = [{**row, "candidate_rank": None} for row in ROWS[:2]] + [
        {**ROWS[2], "candidate_rank": 1, "nll": 1e4}
    ]
    measurement = Measurement(build_metrics([own(Undefined)]))
    measurement.add(rows)
    values = results(measurement)
    undefined = {"perplexity_word", "perplexity_token", "Undefined"}
    assert values.keys() == STANDARD - undefined | EXTRA
    assert values["left_out"].keys() == undefined
    assert measurement.values_of(np.array([True, True, False])).keys() == STANDARD - {
        "hits_1_of_20",
        "self_bleu",
    }


def test_an_evaluation_measures_the_metrics_of_the_recipe(trained: Callable[[str], Path]) -> None:
    metrics = [{"name": "distinct", "n": 3}, own(Questions), own(Undefined)]
    run = dialog.load(trained("lstm"), overrides=[f"metrics={json.dumps(metrics)}"], trust=True)
    folder, values = evaluate(run, "validation", quiet=True)
    rows = (folder / "responses.jsonl").read_text(encoding="utf-8").splitlines()
    responses = [json.loads(row)["response"] for row in rows]
    assert values["Questions"] == pytest.approx(
        sum("?" in text for text in responses) / len(responses)
    )
    assert values["distinct_3"] >= values["distinct_2"]
    assert "Undefined" in values["left_out"]
    assert values == json.loads((folder / "metrics.json").read_text(encoding="utf-8"))


class Fragile(Questions):
    def update(self, responses: Sequence[str]) -> None:
        if "" in responses:
            raise ZeroDivisionError("no\nwords")
        super().update(responses)


def test_a_metric_that_fails_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """One line names metric and response; the others are measured."""
    values = measure(own(Fragile))
    assert caplog.messages == [
        "Fragile: failed on response 2 (ZeroDivisionError: no words); it is left out"
    ]
    assert "Fragile" not in values
    assert values["left_out"] == {"Fragile": "failed on response 2 (ZeroDivisionError: no words)"}
    assert {name: values[name] for name in STANDARD} == {name: measure()[name] for name in STANDARD}
