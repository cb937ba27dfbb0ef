"""``dialog benchmark`` as users call it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dialog.benchmark import bound
from dialog.benchmark.generation import BATCHES, TOKENS
from dialog.cli import main, program

SIZES = [
    "model.encoder.size=24",
    "model.decoder.size=24",
    "model.decoder.attention.size=16",
    "model.embedding_size=24",
]
DATA = ["data.corpus.size=60", "data.tokenizer.vocabulary=400", "data.batch_tokens=1200"]
RECIPE = ["quickstart/lstm_bahdanau", *SIZES, *DATA]


@pytest.fixture
def benchmark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bound, "SMALLEST", 64)
    monkeypatch.setattr(bound, "SECONDS", 0.0)

    def run(*arguments: str) -> Result:
        done = CliRunner().invoke(
            program, ["benchmark", *RECIPE, *arguments], catch_exceptions=False
        )
        assert not list(tmp_path.iterdir()), "something was left behind"
        return done

    return run


def test_its_figures_agree_with_each_other(benchmark: Callable[..., Result]) -> None:
    found = json.loads(
        benchmark("--steps", "4", "--warm-up", "2", "--precision", "bfloat16", "--json").stdout
    )
    training: dict[str, Any] = found["training"]
    assert found["recipe"] == RECIPE[0]
    assert (training["steps"], training["warm_up"], training["precision"]) == (4, 2, "32-true")
    assert training["tokens_per_second"] > training["target_tokens_per_second"] > 0
    low, high = training["step_quartiles"]
    assert 0 < low <= training["step_seconds"] <= high
    assert 0 <= training["padding"] < 0.5
    assert 0 < training["loading"] < 1
    assert (
        training["share_of_bound"]
        == training["flops_per_second"] / training["gemm_flops_per_second"]
    )
    assert training["first_step_seconds"] > training["step_seconds"] / 10
    assert training["memory_bytes"] > 50 * 2**20
    assert training["cuda_memory_bytes"] is None
    assert {(each["batch"], each["tokens"]) for each in found["generation"]} >= {
        (batch, TOKENS) for batch in BATCHES
    }
    assert {each["precision"] for each in found["generation"]} == {"bfloat16"}
    for each in found["generation"]:
        assert each["tokens_per_second"] * each["seconds"] == pytest.approx(
            each["batch"] * each["tokens"]
        )
        assert (
            0
            < each["share_of_bound"]
            == each["flops_per_second"] / each["gemm_flops_per_second"]
            < 1
        )
        assert each["memory_bytes"] > 50 * 2**20
        assert each["cuda_memory_bytes"] is None


def test_its_text_names_what_was_measured(benchmark: Callable[..., Result]) -> None:
    text = benchmark(
        "--steps", "1", "--warm-up", "1", "--no-generation", "trainer.precision=bf16-mixed"
    ).stdout
    names = [line[:26].rstrip() for line in text.splitlines()]
    assert names[:4] == ["recipe", "machine", "precision", "parameters"]
    assert "bf16-mixed on cpu" in text
    for name in (
        "target tokens/s",
        "source + target tokens/s",
        "share of the bound",
        "padding",
        "loading",
        "start-up",
    ):
        assert name in names
    assert "greedy" not in text


def test_many_processes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["dialog", "benchmark", *RECIPE, "trainer.devices=2"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert len(error) == 1
    assert "trainer.devices=1" in error[0]
