"""A comparison from the command line: two recipes, two seeds, one report."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import dialog
from dialog.cli import main
from dialog.comparison import results as found
from dialog.comparison.compare import Entry, apart
from dialog.config.compose import compose
from dialog.escaping import to_json

QUICK = [
    "trainer.max_steps=8",
    "trainer.val_check_interval=4",
    "trainer.log_every_n_steps=2",
    "trainer.accumulate_grad_batches=1",
    "generation.max_length=6",
]


OWN = {"lstm": ["model.decoder.attention={name: dialog.models.attention.AdditiveScorer, size: 16}"]}
"""A part that a recipe imports, as a user's own is."""


@dataclass
class Compared:
    place: Path
    folder: Path
    results: dict[str, Any]
    printed: str


@pytest.fixture(scope="module")
def compared(tiny: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """``dialog compare lstm.yaml transformer.yaml ... --seeds 2`` in a process of its own."""
    place = tmp_path_factory.mktemp("comparison")
    for family in ("lstm", "transformer"):
        (place / f"{family}.yaml").write_text(tiny(family, "seed=7", *OWN.get(family, [])).yaml(), encoding="utf-8")
    command = ["compare", "lstm.yaml", "transformer.yaml", *QUICK, "--seeds", "2", "--output", "out"]
    done = subprocess.run(
        [sys.executable, "-m", "dialog", *command],
        cwd=place,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    folder = place / "out"
    return Compared(place, folder, json.loads((folder / "results.json").read_text(encoding="utf-8")), done.stdout)


def runs(compared: Compared) -> list[tuple[str, dict[str, Any]]]:
    return [(model["name"], run) for model in compared.results["models"] for run in model["runs"]]


# ------------------------------------------------------------------ results.json


def test_results(compared: Compared) -> None:
    results = compared.results
    assert results.keys() == {
        "format", "command", "environment", "split", "seconds", "models", "parity", "samples", "attention",
    }  # fmt: skip
    assert (results["format"], results["split"]) == (1, "test")
    assert "--seeds 2" in results["command"]
    assert "lstm.yaml transformer.yaml trainer.max_steps=8" in results["command"]
    assert all(isinstance(value, str | int | float) for value in results["environment"].values())
    assert results["seconds"] > sum(run["seconds"] for _, run in runs(compared)) > 0
    assert [model["name"] for model in results["models"]] == ["lstm", "transformer"]
    for model in results["models"]:
        assert model.keys() == {"name", "parameters", "runs", "summary"}
        sizes = model["parameters"]
        assert sizes["total"] == sizes["embeddings"] + sizes["rest"] > 0
        assert [run["seed"] for run in model["runs"]] == [7, 8]


def test_each_run(compared: Compared) -> None:
    for _, run in runs(compared):
        assert run.keys() == {"seed", "folder", "seconds", "steps", "target_tokens", "metrics", "curve"}
        assert run["steps"] == 8
        folder = compared.folder / run["folder"]
        assert run["metrics"] == json.loads((folder / "evaluation/test/metrics.json").read_text(encoding="utf-8"))
        lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        assert [point["step"] for point in run["curve"]] == [line["step"] for line in lines]
        for point in run["curve"]:
            assert point.keys() == {
                "step", "epoch", "target_tokens", "seconds", "train/loss", "validation/bits_per_byte",
            }  # fmt: skip
        validated = [point for point in run["curve"] if point["validation/bits_per_byte"] is not None]
        assert len(validated) == 2
        assert validated[-1]["target_tokens"] == run["target_tokens"] > validated[0]["target_tokens"] > 0
        assert validated[0]["validation/bits_per_byte"] > validated[-1]["validation/bits_per_byte"]


def test_seeds_make_a_difference(compared: Compared) -> None:
    assert len({run["metrics"]["nll_nats"] for _, run in runs(compared)}) == 4


def test_summary_is_mean_and_sample_deviation(compared: Compared) -> None:
    for model in compared.results["models"]:
        assert {"bits_per_byte", "perplexity_token", "token_accuracy", "f1", "sacrebleu"} <= model["summary"].keys()
        assert not {"examples", "tokens", "fingerprint"} & model["summary"].keys()
        for name, entry in model["summary"].items():
            found = [run["metrics"][name] for run in model["runs"]]
            values = [each["score"] if isinstance(each, dict) else each for each in found]
            assert entry["n"] == 2
            assert entry["mean"] == pytest.approx(sum(values) / 2)
            assert entry["std"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
            assert entry["std"] == pytest.approx(statistics.stdev(values))


def test_what_is_equal_and_what_differs(compared: Compared) -> None:
    rows = {row["what"]: row for row in compared.results["parity"]}
    for row in rows.values():
        assert row.keys() == {"what", "equal", "must", "values"}
        assert len(row["values"]) == 2
        assert row["equal"] == (row["values"][0] == row["values"][1])
        assert row["equal"] or not row["must"], row
    for what in ("data fingerprint", "tokenizer", "test set", "seeds", "search"):
        assert rows[what]["must"], what
    for what in ("target tokens seen", "optimizer steps", "optimizer", "gradient clipping", "batch tokens"):
        assert rows[what]["equal"], what
    for what in ("parameters", "parameters without embeddings"):
        assert not rows[what]["equal"], what
    assert rows["parameters"]["values"] == [model["parameters"]["total"] for model in compared.results["models"]]
    assert len({run["target_tokens"] for _, run in runs(compared) if run["seed"] == 7}) == 1


def test_samples(compared: Compared) -> None:
    samples = compared.results["samples"]
    assert len(samples) == len({sample["id"] for sample in samples}) == 12
    answers = []
    for _, run in runs(compared)[::2]:
        path = compared.folder / run["folder"] / "evaluation" / "test" / "responses.jsonl"
        rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
        answers.append({row["id"]: row for row in rows})
    for sample in samples:
        assert sample.keys() == {"id", "context", "reference", "responses"}
        assert sample["context"]
        assert sample["responses"] == [rows[sample["id"]]["response"] for rows in answers]
        assert all(rows[sample["id"]]["context"] == sample["context"] for rows in answers)
        assert all(rows[sample["id"]]["reference"] == sample["reference"] for rows in answers)


def test_samples_without_contexts(tmp_path: Path) -> None:
    folder = tmp_path / "evaluation" / "test"
    folder.mkdir(parents=True)
    rows = [{"id": str(place), "context": [], "reference": "Hi", "response": "Ho"} for place in range(3)]
    (folder / "responses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert [each["id"] for each in found.samples([tmp_path], "test")] == ["0", "1", "2"]


def test_runs_of_one_name_are_told_apart() -> None:
    composed = compose("quickstart/transformer")
    made = [Entry("b", composed, Path("one/runs/b")), Entry("b", composed, Path("two/runs/b")), Entry("c", composed)]
    assert [each.name for each in apart(made)] == ["one/runs/b", "two/runs/b", "c"]


def test_numbers_that_are_not_finite_are_null() -> None:
    read = json.loads(to_json({"a": [float("nan"), 1.5], "b": {"c": float("-inf"), "d": "NaN"}}))
    assert read == {"a": [None, 1.5], "b": {"c": None, "d": "NaN"}}


def test_attention_is_shown_on_what_all_got_right() -> None:
    def sample(context: int, *responses: str) -> dict[str, Any]:
        return {"id": str(context), "context": ["Hi"] * context, "reference": "Ten .", "responses": list(responses)}

    right, longer, wrong = sample(2, "Ten .", "Ten ."), sample(3, "Ten .", "Ten ."), sample(9, "Ten .", "Two .")
    rambling = sample(10, "and so on " * 9, "Two .")
    assert found.telling([wrong, right, longer, rambling]) == longer
    assert found.telling([rambling, wrong]) == wrong
    assert found.telling([rambling]) == rambling


def test_attention(compared: Compared) -> None:
    maps = compared.results["attention"]
    assert [each["model"] for each in maps] == ["lstm", "transformer"]
    for each in maps:
        assert each.keys() == {"model", "name", "head", "context_tokens", "response_tokens", "weights"}
        assert len(each["weights"]) == len(each["response_tokens"])
        for row in each["weights"]:
            assert len(row) == len(each["context_tokens"])
            assert sum(row) == pytest.approx(1, abs=1e-4)


# ------------------------------------------------------------------ files


def test_reports_need_nothing_else(compared: Compared) -> None:
    assert {path.name for path in compared.folder.iterdir()} == {"report.html", "report.md", "results.json", "runs"}
    page = (compared.folder / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 4  # two curves, a map a model
    assert not re.search(r"<(script|link|iframe|img|base)\b|(?:src|href)\s*=\s*[\"']?(?!#)|url\(|@import", page, re.I)
    text = (compared.folder / "report.md").read_text(encoding="utf-8")
    for shown in (page, text, compared.printed):
        for model in compared.results["models"]:
            assert model["name"] in shown
            assert f"{model['summary']['bits_per_byte']['mean']:.3f}" in shown


def test_runs_are_whole(compared: Compared) -> None:
    for name, run in runs(compared):
        folder = compared.folder / run["folder"]
        assert folder.relative_to(compared.folder).as_posix() == f"runs/{name}/seed-{run['seed']}"
        for each in (
            "recipe.yaml", "environment.json", "tokenizer.json", "model.safetensors", "metrics.jsonl",
            "checkpoints/best.ckpt", "checkpoints/last.ckpt", "checkpoints/manifest.json",
            "attention/step-4", "attention/step-8",
            "evaluation/test/metrics.json", "evaluation/test/responses.jsonl",
        ):  # fmt: skip
            assert (folder / each).exists(), each
        assert {each.name for each in folder.rglob(".*")} <= {".lock"}, "left over"
        assert dialog.compose(str(folder / "recipe.yaml")).recipe.seed == run["seed"]


# ------------------------------------------------------------------ runs that are there, and what is refused


def leave(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The command line in this process: its exit code."""
    monkeypatch.setattr(sys, "argv", ["dialog", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_runs_instead_of_recipes(
    compared: Compared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is trained again, also where two runs lie side by side; and the numbers are those of before."""
    monkeypatch.chdir(tmp_path)
    for family in ("lstm", "transformer"):
        shutil.copytree(compared.folder / f"runs/{family}/seed-7", tmp_path / "mine" / family)
        shutil.rmtree(tmp_path / "mine" / family / "evaluation")
    before = {path: path.read_bytes() for path in (tmp_path / "mine").rglob("*.safetensors")}
    changed = ["compare", "mine/lstm", "mine/transformer", "--trust", "generation.max_length=3"]
    assert leave(changed, monkeypatch) == 2
    assert "generation.max_length=3: runs are compared as they were trained" in capsys.readouterr().err
    assert leave(["compare", "mine/lstm", "mine/transformer", "--output", "out"], monkeypatch) == 2
    assert "its recipe imports" in capsys.readouterr().err
    arguments = ["compare", "mine/lstm", "mine/transformer", "--trust", "--output", "out", "--json"]
    assert leave(arguments, monkeypatch) == 0
    results = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in results["models"]] == ["mine/lstm", "mine/transformer"]
    for model, old in zip(results["models"], compared.results["models"], strict=True):
        (run,) = model["runs"]
        assert run["metrics"] == old["runs"][0]["metrics"]
        assert (tmp_path / "out" / run["folder"]).resolve().is_relative_to(tmp_path / "mine")
        assert all(entry["std"] is None and entry["n"] == 1 for entry in model["summary"].values())
    assert {path: path.read_bytes() for path in (tmp_path / "mine").rglob("*.safetensors")} == before
    assert not (tmp_path / "out" / "runs").exists()


def test_different_data_are_no_comparison(
    compared: Compared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(compared.place)
    text = (compared.place / "transformer.yaml").read_text(encoding="utf-8")
    (tmp_path / "other.yaml").write_text(text.replace("size: 60", "size: 61"), encoding="utf-8")
    assert (
        leave(["compare", "lstm.yaml", str(tmp_path / "other.yaml"), "--output", str(tmp_path / "out")], monkeypatch)
        == 2
    )
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert line.startswith("dialog: ")
    assert "lstm" in line
    assert "other" in line
    assert "data" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (["lstm.yaml"], "two"),
        (["lstm.yaml", "lstm.yaml"], "twice"),
        (["lstm.yaml", "missing.yaml"], "missing.yaml"),
        (["lstm.yaml", "transformer.yaml", "--output", "out"], "out exists"),
        (["lstm.yaml", "transformer.yaml", "model.embeding_size=3"], "embeding_size"),
        (["lstm.yaml", "out"], "out is not a run"),
    ],
)
def test_what_cannot_be_compared_is_one_line(
    compared: Compared,
    arguments: list[str],
    about: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(compared.place)
    before = sorted(compared.place.iterdir())
    assert leave(["compare", *arguments], monkeypatch) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert about in line
    assert sorted(compared.place.iterdir()) == before
