"""Use of the context of trained runs: context_use.json and "context_use" of results.json."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp

import dialog
from dialog.comparison.context_use import (
    context_results,
    interval_of,
    measure_context_use,
    sample_of,
)
from dialog.report.formats.results import ContextChange, ContextUse, DroppedTurn, Perturbation
from dialog.runs.evaluation.evaluated import check_evaluation


@pytest.fixture
def run(trained: Callable[[str], Path], tmp_path: Path) -> dialog.Run:
    return dialog.load(shutil.copytree(trained("lstm"), tmp_path / "run"))


def test_context_use_of_a_run(run: dialog.Run) -> None:
    evaluation = run.folder / "evaluation" / "test"
    sample = sample_of(run, "test")
    measured = measure_context_use(run, evaluation, sample)
    assert json.loads((evaluation / "context_use.json").read_text(encoding="utf-8")) == measured
    plain = json.loads((evaluation / "metrics.json").read_text(encoding="utf-8"))
    assert measured["examples"] == plain["examples"]  # a small split is the sample
    assert measured["plain"]["bits_per_byte"] == pytest.approx(plain["bits_per_byte"], rel=1e-5)
    rows = {row["perturbation"]: row for row in measured["perturbations"]}
    assert len(rows) == 9
    assert 0 < rows["drop last"]["changed"] < measured["examples"]
    assert rows["random context"]["bits_per_byte"] > 0
    for row in rows.values():
        assert len(row["left_out"]) == measured["dialogues"]
        low, high = row["interval"]
        assert low < row["bits_per_byte"] < high or low == row["bits_per_byte"] == high
    first = measured["distance"][0]
    assert first["bits_per_byte"] * first["examples"] != 0


def test_context_use_is_measured_once(run: dialog.Run) -> None:
    """Until the sample or the weights change, or the file is damaged or changed."""
    folder = run.folder / "evaluation" / "test"
    sample = sample_of(run, "test")
    measured = measure_context_use(run, folder, sample)
    assert measure_context_use(run, folder, sample)["seconds"] == measured["seconds"]
    assert check_evaluation(folder), "the other files are still listed"
    (folder / "context_use.json").write_text(
        json.dumps({**measured, "seconds": -1.0}), encoding="utf-8"
    )
    assert measure_context_use(run, folder, sample)["seconds"] > 0
    (folder / "manifest.json").unlink()
    measure_context_use(run, folder, sample[:10])
    assert not (folder / "manifest.json").exists(), "it would not list the other files"
    shorter = measure_context_use(run, folder, sample[:20])
    assert shorter["examples"] == 20
    (folder / "context_use.json").write_text("{", encoding="utf-8")
    assert measure_context_use(run, folder, sample[:20])["plain"] == shorter["plain"]
    assert (
        measure_context_use(replace(run, weights="other"), folder, sample[:20])["fingerprint"]
        != shorter["fingerprint"]
    )


def test_results_are_means_over_seeds() -> None:
    def measured(bits: float | None, perplexity: float | None) -> dict[str, object]:
        change = {"bits_per_byte": bits, "perplexity_token": perplexity, "left_out": [bits, bits]}
        return {
            "examples": 50,
            "perturbations": [{"perturbation": "shuffle", "changed": 40, **change}],
            "distance": [{"distance": 1, "examples": 30, **change}],
        }

    results = context_results(
        {"a": [measured(0.25, 2.0), measured(0.75, 4.0)], "b": [measured(0.5, None)], "c": []}
    )
    values = {
        "a": ContextChange(0.5, pytest.approx(0.5**0.5 / 2), (), 2, 3.0),
        "b": ContextChange(0.5, None, (), 1),
    }
    assert results == ContextUse(
        50, (Perturbation("shuffle", 40, values),), (DroppedTurn(1, 30, values),)
    )
    assert context_results({}) == ContextUse()


def test_interval_of_a_change_is_that_of_a_paired_t_test() -> None:
    """One run: over dialogues. Several: wider, by the variance between them."""
    changes = np.random.default_rng(0).normal(0.1, 0.2, 12)
    left_out = (changes.sum() - changes) / 11
    row = {"bits_per_byte": changes.mean(), "left_out": left_out.tolist()}
    expected = ttest_1samp(changes, 0).confidence_interval()
    assert interval_of([row]) == pytest.approx([*expected])
    shifted = [
        {"bits_per_byte": row["bits_per_byte"] + by, "left_out": left_out + by}
        for by in (-0.2, 0.0, 0.2)
    ]
    low, high = interval_of(shifted)
    assert low < expected.low < expected.high < high
