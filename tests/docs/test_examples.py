"""The files of examples/ run as their docstrings say, here with few steps."""

from __future__ import annotations

import ast
import csv
import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = [
    "data.corpus.size=40",
    "trainer.max_steps=2",
    "trainer.val_check_interval=2",
    "trainer.log_every_n_steps=1",
]
RunExample = Callable[..., str]


@pytest.fixture
def run_example(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> RunExample:
    """Runs ``python examples/NAME.py ARGUMENTS`` in this process; returns the last line of its
    output.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(EXAMPLES)

    def run(name: str, *arguments: str) -> str:
        file = EXAMPLES / f"{name}.py"
        monkeypatch.setattr(sys, "argv", [str(file), *arguments])
        runpy.run_path(str(file), run_name="__main__")
        return capsys.readouterr().out.splitlines()[-1]

    return run


@pytest.mark.parametrize("file", sorted(EXAMPLES.iterdir()), ids=lambda file: file.name)
def test_an_example_is_short_and_states_its_command(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text.count("\n") < 40
    assert f"python examples/{file.name}" in (ast.get_docstring(ast.parse(text)) or "")


def test_own_attention_trains_and_own_metric_evaluates_it(run_example: RunExample) -> None:
    folder = Path(run_example("own_attention", *SHORT, "generation.max_length=4"))
    maps = json.loads(
        next((folder / "attention" / "step-2").glob("*.json")).read_text(encoding="utf-8")
    )
    assert [attention["name"] for attention in maps["maps"]] == ["decoder.attention"]

    share = float(run_example("own_metric", str(folder)))
    (metrics,) = folder.glob("evaluation/*/metrics.json")
    assert json.loads(metrics.read_text(encoding="utf-8"))["Questions"] == share
    assert 0 <= share <= 1


def test_own_corpus_trains(run_example: RunExample) -> None:
    assert (Path(run_example("own_corpus", *SHORT)) / "model.safetensors").is_file()


def test_own_corpus_has_right_sums_in_the_same_order() -> None:
    corpus = runpy.run_path(str(EXAMPLES / "own_corpus.py"))["Sums"](20)
    dialogues = list(corpus.dialogues("train"))
    assert dialogues == list(corpus.dialogues("train"))
    for dialogue in dialogues:
        start, first, middle, second, end = (int(turn.text.split()[-2]) for turn in dialogue.turns)
        assert (start + first, middle + second) == (middle, end)


@pytest.mark.filterwarnings("ignore")  # Lightning advises more workers
def test_own_trainer_lowers_the_loss(run_example: RunExample, tmp_path: Path) -> None:
    run_example("own_trainer", "data.corpus.size=40", "trainer.max_steps=24")
    with next(tmp_path.glob("runs/own_trainer/*/metrics.csv")).open(encoding="utf-8") as file:
        losses = [
            float(row["validation/loss"]) for row in csv.DictReader(file) if row["validation/loss"]
        ]
    assert losses[-1] < losses[0]
