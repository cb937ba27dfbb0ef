"""Attention during training: the maps of the validated weights, of examples that only the data
choose.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dialog
from dialog.analysis.attention.split import Encoding
from dialog.analysis.attention.statistics import statistics
from dialog.analysis.attention.token_kinds import TokenKinds
from dialog.build import build_corpus, build_rules
from dialog.data.dialogue import Example
from dialog.data.examples import examples
from dialog.data.store.store import Store
from dialog.runs.prepare import prepare_data
from dialog.runs.train import train
from dialog.training.callbacks.attention_recorder import rows_to_draw, rows_to_measure
from dialog.training.callbacks.attention_views import read_maps

ONE_VALIDATION = ["trainer.max_steps=3", "trainer.val_check_interval=3"]
ONE_VALIDATION += ["trainer.precision=bf16-mixed", "model.dropout=0.5"]


def validation_examples(recipe: dialog.Recipe) -> list[Example]:
    return list(
        examples(build_corpus(recipe).dialogues("validation"), build_rules(recipe), Counter())
    )


@pytest.fixture(scope="module", params=["lstm", "transformer"])
def recorded_run(
    request: pytest.FixtureRequest,
    tiny: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """A run in bf16-mixed with averaged weights, and the maps of its only validation."""
    folder = tmp_path_factory.mktemp("run") / request.param
    train(
        tiny(request.param, *ONE_VALIDATION, "checkpoint.averaging={name: ema}"), folder, quiet=True
    )
    return folder


def test_maps_are_those_of_the_weights_that_were_validated(recorded_run: Path) -> None:
    run = dialog.load(recorded_run)
    originals = validation_examples(run.recipe)
    paths = sorted((recorded_run / "attention" / "step-3").glob("*.npz"))
    assert len(paths) == 4
    for path in paths:
        expected = run.attention_of_example(originals[int(path.stem)])
        del expected["rollout"]
        expected["maps"] = [one for one in expected["maps"] if one["kind"] == "cross"]
        written = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        for reading, tolerance in ((read_maps(path), 1e-6), (written, 2e-6)):
            assert reading.keys() == expected.keys()
            for key in expected.keys() - {"maps", "turns", "response"}:
                assert reading[key] == expected[key], key
            assert [turn["speaker"] for turn in reading["turns"]] == [
                turn["speaker"] for turn in expected["turns"]
            ]
            for one, other in zip(reading["maps"], expected["maps"], strict=True):
                assert one["name"] == other["name"]
                np.testing.assert_allclose(one["weights"], other["weights"], atol=tolerance)


def test_curves_are_statistics_of_the_measured_rows(recorded_run: Path) -> None:
    run = dialog.load(recorded_run)
    store = Store(prepare_data(run.recipe), "validation")
    originals = validation_examples(run.recipe)
    encoding = Encoding(run.tokenizer, run.recipe.data.max_source)
    batches = encoding.batches([originals[row] for row in rows_to_measure(store)])
    expected = {
        f"attention/{name}/{row['module']}"
        + (f".{row['head']}" if "attention" in row["module"] else ""): value
        for row in statistics(run.model, batches, TokenKinds.of(run.tokenizer))["rows"]
        for name, value in row.items()
        if "coverage" in row and row["module"] != "uniform"
    }
    lines = [
        json.loads(line)
        for line in (recorded_run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    (line,) = (line for line in lines if "validation/loss" in line)
    curves = {key: value for key, value in line.items() if key.startswith("attention/")}
    assert {key.split("/")[1] for key in curves} == {
        "entropy", "sharpness", "mass_start", "mass_end", "coverage", "alignment_accuracy"
    }  # fmt: skip
    assert {key.split("/")[2] for key in curves} == {key.split("/")[2] for key in expected}
    for key, value in curves.items():
        assert value == pytest.approx(expected[key], abs=1e-5), key


def test_tokenizer_and_model_do_not_change_the_drawn_examples(tiny: Callable[..., Any]) -> None:
    recipes = [
        tiny("lstm", "data.max_source=20").recipe,
        tiny("transformer", "data.tokenizer.vocabulary=310").recipe,
    ]
    stores = [Store(prepare_data(recipe), "validation") for recipe in recipes]
    assert not np.array_equal(stores[0].lengths, stores[1].lengths)
    assert rows_to_draw(stores[0]) == rows_to_draw(stores[1])
    assert rows_to_measure(stores[0]) == rows_to_measure(stores[1])
    drawn = stores[0].target_bytes(rows_to_draw(stores[0])) / 4
    # longer than the average
    assert drawn > stores[0].target_bytes(range(len(stores[0]))) / len(stores[0])
