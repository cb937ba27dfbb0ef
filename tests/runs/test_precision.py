"""Evaluation whose responses are generated in another precision than float32."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import dialog
from dialog.cli import program
from dialog.errors import UserError
from dialog.models.inference import has_int8
from dialog.runs.evaluation.evaluate import evaluate
from dialog.runs.evaluation.evaluated import current_evaluation

CASES = [
    "bfloat16",
    pytest.param("int8", marks=pytest.mark.skipif(not has_int8("cpu"), reason="no VNNI")),
]
LIKELIHOODS = ("nll_nats", "bits_per_byte", "token_accuracy", "calibration_error")


@pytest.fixture
def run(trained: Callable[[str], Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained("lstm"), tmp_path / "run"))


@pytest.mark.parametrize("precision", CASES)
def test_it_has_its_own_folder_and_likelihoods_of_float32(
    run: Path, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dialog.models.kernels.products.MEDIUM", 1)
    own = json.loads((run / "evaluation" / "test" / "metrics.json").read_text())
    result = CliRunner().invoke(program, ["evaluate", str(run), "--precision", precision, "--json"])
    assert result.exit_code == 0, result.output
    metrics = json.loads(result.stdout)
    assert metrics["generation"]["precision"] == precision
    assert {key: metrics[key] for key in LIKELIHOODS} == {key: own[key] for key in LIKELIHOODS}
    (folder,) = (one for one in (run / "evaluation").iterdir() if one.name.startswith("test-"))
    scores, exact = (
        [json.loads(line)["score"] for line in (one / "responses.jsonl").read_text().splitlines()]
        for one in (folder, run / "evaluation" / "test")
    )
    assert scores != exact
    assert json.loads((run / "evaluation" / "test" / "metrics.json").read_text()) == own
    shutil.rmtree(run / "evaluation" / "test")
    assert current_evaluation(run, dialog.load(run).recipe, "test", None) is None


def test_a_name_is_not_shared_with_another_precision(run: Path) -> None:
    loaded = dialog.load(run)
    evaluate(loaded, "test", name="fast", precision="bfloat16", quiet=True)
    with pytest.raises(UserError, match="other settings or data"):
        evaluate(loaded, "test", name="fast", quiet=True)


def test_a_run_loaded_in_half_precision_is_not_evaluated(run: Path) -> None:
    with pytest.raises(UserError, match="loaded in bfloat16"):
        evaluate(dialog.load(run, precision="bfloat16"), "test", quiet=True)


@pytest.mark.parametrize("verb", [["evaluate", "RUN"], ["benchmark", "quickstart/transformer"]])
def test_an_unknown_precision_is_one_line(run: Path, verb: list[str]) -> None:
    arguments = [str(run) if one == "RUN" else one for one in verb]
    with pytest.raises(UserError, match=r"precision.*bfloat1"):
        CliRunner().invoke(program, [*arguments, "--precision", "bfloat1"], catch_exceptions=False)
