"""A comparison from the command line: two recipes, two seeds, one report."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import shutil
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import dialog
from dialog.cli import main
from dialog.comparison.grid.contenders import run_names
from dialog.comparison.preference.ratings import add_ratings
from dialog.comparison.preference.study import write_study
from dialog.config.schema import to_dict
from dialog.config.trust import trust_of

QUICK = [
    "trainer.max_steps=8",
    "trainer.val_check_interval=4",
    "trainer.log_every_n_steps=2",
    "trainer.accumulate_grad_batches=1",
    "generation.max_length=6",
]


IMPORTED = {
    "lstm": ["model.decoder.attention={name: dialog.models.attention.AdditiveScorer, size: 16}"]
}
"""A part imported by its dotted name, like the code of a user."""


@dataclass
class Comparison:
    recipes: Path
    folder: Path
    results: dict[str, Any]
    output: str


@pytest.fixture(scope="module")
def comparison(tiny: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    """Result of ``dialog compare lstm.yaml transformer.yaml ... --seeds 2``."""
    recipes = tmp_path_factory.mktemp("comparison")
    for family in ("lstm", "transformer"):
        recipe = tiny(family, "seed=7", *IMPORTED.get(family, []))
        (recipes / f"{family}.yaml").write_text(recipe.yaml(), encoding="utf-8")
    command = [
        "compare",
        "lstm.yaml",
        "transformer.yaml",
        *QUICK,
        "--seeds",
        "2",
        "--output",
        "out",
    ]
    output = io.StringIO()
    with pytest.MonkeyPatch.context() as monkeypatch, contextlib.redirect_stdout(output):
        monkeypatch.chdir(recipes)
        assert exit_code(command, monkeypatch) == 0
    folder = recipes / "out"
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return Comparison(recipes, folder, results, output.getvalue())


def runs(comparison: Comparison) -> list[tuple[str, dict[str, Any]]]:
    return [(model["name"], run) for model in comparison.results["models"] for run in model["runs"]]


# ------------------------------------------------------------------ results.json


def test_results(comparison: Comparison) -> None:
    results = comparison.results
    assert results.keys() == {
        "version", "command", "environment", "split", "fingerprint", "dialogues", "examples", "seconds",
        "verdict", "primary", "looks", "ranking", "warnings", "models", "references", "parity", "differences", "statistics",
        "crossings", "context_use", "breakdown", "calibration", "samples", "disagreements", "attention",
        "ratings", "judges", "tuning",
    }  # fmt: skip
    assert results["tuning"] == []
    assert (results["version"], results["split"]) == (6, "test")
    assert results["statistics"]["seeds"] == {"lstm": 2, "transformer": 2}
    assert "--seeds 2" in results["command"]
    assert "lstm.yaml transformer.yaml trainer.max_steps=8" in results["command"]
    assert all(isinstance(value, str | int | float) for value in results["environment"].values())
    assert results["seconds"] > sum(run["seconds"] for _, run in runs(comparison)) > 0
    assert [model["name"] for model in results["models"]] == ["lstm", "transformer"]
    for model in results["models"]:
        assert model.keys() == {
            "name", "kind", "tokenizer", "parameters", "flops_per_target_token", "state_bytes", "trials", "runs", "summary", "cost",
            "system",
        }  # fmt: skip
        assert model["kind"] == "recipe"
        sizes = model["parameters"]
        assert sizes["total"] == sizes["embeddings"] + sizes["rest"] > 0
        assert [run["seed"] for run in model["runs"]] == [7, 8]


def test_each_run(comparison: Comparison) -> None:
    for _, run in runs(comparison):
        assert run.keys() == {
            "seed", "folder", "evaluation", "seconds", "steps", "target_tokens", "diverged", "metrics", "hashes",
            "verified", "curve",
        }  # fmt: skip
        assert run["steps"] == 8
        folder = comparison.folder / run["folder"]
        assert run["metrics"] == json.loads(
            (folder / "evaluation/test/metrics.json").read_text(encoding="utf-8")
        )
        manifest = json.loads(
            (folder / "evaluation/test/manifest.json").read_text(encoding="utf-8")
        )
        assert manifest.keys() - run["hashes"].keys() == {"attention.json", "context_use.json"}
        assert run["verified"]
        assert run["hashes"].items() <= manifest.items()
        lines = [
            json.loads(line)
            for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        ]
        assert [point["step"] for point in run["curve"]] == [line["step"] for line in lines]
        for point in run["curve"]:
            assert point.keys() == {
                "step", "epoch", "target_tokens", "seconds", "train/loss", "validation/bits_per_byte",
            }  # fmt: skip
        validated = [
            point for point in run["curve"] if point["validation/bits_per_byte"] is not None
        ]
        assert len(validated) == 2
        assert (
            validated[-1]["target_tokens"]
            == run["target_tokens"]
            > validated[0]["target_tokens"]
            > 0
        )
        assert validated[0]["validation/bits_per_byte"] > validated[-1]["validation/bits_per_byte"]


def test_all_runs_differ(comparison: Comparison) -> None:
    assert len({run["metrics"]["nll_nats"] for _, run in runs(comparison)}) == 4


def test_summary_is_mean_and_sample_deviation(comparison: Comparison) -> None:
    for model in comparison.results["models"]:
        summary = model["summary"]["all"]
        assert {
            "bits_per_byte",
            "perplexity_token",
            "token_accuracy",
            "f1",
            "sacrebleu",
        } <= summary.keys()
        assert not {"examples", "tokens", "fingerprint"} & summary.keys()
        for name, entry in summary.items():
            metrics = [run["metrics"][name] for run in model["runs"]]
            values = [value["score"] if isinstance(value, dict) else value for value in metrics]
            assert entry["n"] == 2
            assert entry["mean"] == pytest.approx(sum(values) / 2)
            assert entry["std"] == pytest.approx(abs(values[0] - values[1]) / 2**0.5)
            assert entry["std"] == pytest.approx(statistics.stdev(values))


def test_parity(comparison: Comparison) -> None:
    rows = {row["what"]: row for row in comparison.results["parity"]}
    for row in rows.values():
        assert row.keys() == {"what", "equal", "must", "values"}
        assert len(row["values"]) == 2
    for what in ("data fingerprint", "tokenizer", "test set", "seeds", "search"):
        assert rows[what]["must"], what
        assert rows[what]["equal"], what
    for what in (
        "target tokens seen (within 10 %)",
        "optimizer steps",
        "optimizer",
        "gradient clipping",
        "batch size",
    ):
        assert rows[what]["equal"], what
    totals = [model["parameters"]["total"] for model in comparison.results["models"]]
    assert rows["parameters (within 10 %)"]["values"] == totals
    assert len({run["target_tokens"] for _, run in runs(comparison) if run["seed"] == 7}) == 1


def test_differences_and_references(comparison: Comparison) -> None:
    """All parts of the analysis have read the same runs."""
    results = comparison.results
    lstm, transformer = (
        model["summary"]["all"]["bits_per_byte"]["mean"] for model in results["models"]
    )
    (entry,) = [
        row
        for row in results["differences"]
        if (row["metric"], row["subset"]) == ("bits_per_byte", "all")
    ]
    assert (entry["a"], entry["b"]) == ("lstm", "transformer")
    assert entry["difference"] == pytest.approx(lstm - transformer)
    low, high = entry["interval"]
    assert low < entry["difference"] < high
    assert {"human", "random", "ngram_5"} <= results["references"]["all"].keys()
    assert (
        "lstm and transformer have more bits per byte than an n-gram model"
        in results["warnings"][0]
    )
    assert {entry["axis"] for entry in results["crossings"]} == {
        "target_tokens",
        "seconds",
        "flops",
    }
    assert results["calibration"].keys() == {"lstm", "transformer"}
    assert results["context_use"]["rows"][0]["values"].keys() == {"lstm", "transformer"}


def test_samples(comparison: Comparison) -> None:
    samples = comparison.results["samples"]
    assert len(samples) == len({sample["id"] for sample in samples}) == 12
    answers = []
    for _, run in runs(comparison)[::2]:
        path = comparison.folder / run["folder"] / "evaluation" / "test" / "responses.jsonl"
        rows = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
        answers.append({row["id"]: row for row in rows})
    for sample in samples:
        assert sample.keys() == {"id", "context", "reference", "responses", "bits_per_byte"}
        assert sample["context"]
        assert sample["responses"] == [rows[sample["id"]]["response"] for rows in answers]
        assert all(rows[sample["id"]]["context"] == sample["context"] for rows in answers)
        assert all(rows[sample["id"]]["reference"] == sample["reference"] for rows in answers)


def test_names_of_run_folders() -> None:
    """The folder that holds all runs of a recipe, else what their paths begin with, else the path
    of the first.
    """

    def names(*groups: list[str]) -> list[str]:
        return run_names([{int(path[-1]): Path(path) for path in group} for group in groups])

    assert names(["one/runs/b2"], ["two/runs/b2"], ["c/runs/d2"]) == [
        "one/runs/b2",
        "two/runs/b2",
        "d2",
    ]
    assert names(["x/runs/lstm/seed-1", "x/runs/lstm/seed-2"], ["c/runs/d2"]) == ["lstm", "d2"]
    assert names(["x/runs/a/seed-1"], ["x/runs/b/seed-1"]) == [
        "a",
        "b",
    ], "single runs of a comparison"
    lstm, transformer = (
        [f"runs/results/{name}-{seed}" for seed in (1, 2)] for name in ("lstm", "transformer")
    )
    assert names(lstm, transformer) == ["results/lstm", "results/transformer"]
    assert names(lstm, transformer[:1]) == [
        "results/lstm",
        "results/transformer",
    ], "not: results, where both are"
    assert names(lstm[:1], ["runs/results/lstm-2"]) == [
        "results/lstm-1",
        "results/lstm-2",
    ], "other recipes"
    assert names(["/my-runs/lstm-1", "/my-runs/lstm-2"], ["c/runs/d2"]) == ["my-runs", "d2"]
    assert names(["/a/1", "/a/2"], ["/a/10", "/a/23"]) == ["a/1", "a/10"]


def test_attention(comparison: Comparison) -> None:
    """Every run of both families on the same references, first runs first."""
    examples = comparison.results["attention"]["examples"]
    assert len(examples) == 4
    ids = {sample["id"] for sample in comparison.results["samples"]}
    for example in examples:
        assert example["id"] in ids
        runs_of = [(entry["model"], entry["seed"]) for entry in example["models"]]
        assert runs_of == [("lstm", 7), ("transformer", 7), ("lstm", 8), ("transformer", 8)]
        for entry in example["models"]:
            assert entry["response"] == example["response"]
            assert entry["maps"]
            for one in entry["maps"]:
                assert one["columns"] == "source"
                for row in one["weights"][0]:
                    assert len(row) == len(entry["context_tokens"])
                    assert sum(row) == pytest.approx(1, abs=1e-3)


def test_attention_statistics(comparison: Comparison) -> None:
    """Every run of both families, kept with its evaluation; equal weights are the same for all
    runs.
    """
    entries = comparison.results["attention"]["statistics"]
    assert [(entry["model"], entry["seed"]) for entry in entries] == [
        *(("lstm", seed) for seed in (7, 8)),
        *(("transformer", seed) for seed in (7, 8)),
    ]
    rows = [{(row["module"], row["head"]): row for row in entry["rows"]} for entry in entries]
    assert all({("mean", 0), ("rollout", 0), ("uniform", 0)} < set(heads) for heads in rows)
    assert {"entropy", "mass_distance_0", "erasure"} <= set(rows[0]["decoder.attention", 0])
    assert all("cross_attention" in module for module, _ in set(rows[2]) - set(rows[0]))
    assert all(heads["uniform", 0] == rows[0]["uniform", 0] for heads in rows)
    kept = [
        json.loads(path.read_text(encoding="utf-8"))
        for path in comparison.folder.glob("runs/*/*/evaluation/test/attention.json")
    ]
    assert {one["examples"] for one in kept} == {comparison.results["examples"]}
    assert len(kept) == 4


# ------------------------------------------------------------------ files


def test_reports_are_self_contained(comparison: Comparison) -> None:
    files = {path.name for path in comparison.folder.iterdir() if not path.name.startswith(".")}
    assert files == {
        "figures",
        "grid.json",
        "looks.jsonl",
        "report.html",
        "report.md",
        "report.tex",
        "results.json",
        "runs",
    }
    page = (comparison.folder / "report.html").read_text(encoding="utf-8")
    assert page.count("<svg") >= 2  # curves
    assert page.count('<table class="heat">') == 2
    page = re.sub(r"(<script>).*?(</script>)", "", page, flags=re.DOTALL)
    assert not re.search(
        r"<(link|iframe|img|base)\b|(?:src|href)\s*=(?!\"#)|url\(|@import", page, re.I
    )
    text = (comparison.folder / "report.md").read_text(encoding="utf-8")
    for shown in (page, text, comparison.output):
        for model in comparison.results["models"]:
            assert model["name"] in shown
            assert f"{model['summary']['all']['bits_per_byte']['mean']:.3f}" in shown


def test_run_folders_are_complete(comparison: Comparison) -> None:
    for name, run in runs(comparison):
        folder = comparison.folder / run["folder"]
        assert folder.relative_to(comparison.folder).as_posix() == f"runs/{name}/seed-{run['seed']}"
        for file in (
            "recipe.yaml", "environment.json", "tokenizer.json", "model.safetensors", "metrics.jsonl",
            "checkpoints/best.ckpt", "checkpoints/last.ckpt", "checkpoints/manifest.json",
            "attention/step-4", "attention/step-8",
            "evaluation/test/metrics.json", "evaluation/test/responses.jsonl",
        ):  # fmt: skip
            assert (folder / file).exists(), file
        assert {path.name for path in folder.rglob(".*")} <= {".lock"}, "temporary file"
        assert dialog.compose(str(folder / "recipe.yaml")).recipe.seed == run["seed"]


# ------------------------------------------------------------------ trained runs and errors


def exit_code(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the command line in this process."""
    monkeypatch.setattr(sys, "argv", ["dialog", *arguments])
    with pytest.raises(SystemExit) as stop:
        main()
    return int(stop.value.code or 0)


def test_runs_instead_of_recipes(
    comparison: Comparison,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Trained runs are evaluated again, not trained again; runs of the same folder name may differ
    by their parents.
    """
    monkeypatch.chdir(tmp_path)
    for family in ("lstm", "transformer"):
        shutil.copytree(comparison.folder / f"runs/{family}/seed-7", tmp_path / "mine" / family)
        shutil.rmtree(tmp_path / "mine" / family / "evaluation")
    before = {path: path.read_bytes() for path in (tmp_path / "mine").rglob("model.safetensors")}
    overridden = ["compare", "mine/lstm", "mine/transformer", "--trust", "generation.max_length=3"]
    assert exit_code(overridden, monkeypatch) == 2
    assert (
        "generation.max_length=3: overrides apply to recipes, not to trained runs"
        in capsys.readouterr().err
    )
    assert (
        exit_code(["compare", "mine/lstm", "mine/transformer", "--output", "out"], monkeypatch) == 2
    )
    assert "imports 'dialog.models.attention.AdditiveScorer'" in capsys.readouterr().err
    arguments = ["compare", "mine/lstm", "mine/transformer", "--trust", "--output", "out", "--json"]
    assert exit_code(arguments, monkeypatch) == 0
    results = json.loads(capsys.readouterr().out)
    assert [model["name"] for model in results["models"]] == ["lstm", "transformer"]
    for model, old in zip(results["models"], comparison.results["models"], strict=True):
        (run,) = model["runs"]
        assert run["metrics"] == old["runs"][0]["metrics"]
        assert (tmp_path / "out" / run["folder"]).resolve().is_relative_to(tmp_path / "mine")
        assert all(
            entry["std"] is None and entry["n"] == 1 for entry in model["summary"]["all"].values()
        )
    assert {
        path: path.read_bytes() for path in (tmp_path / "mine").rglob("model.safetensors")
    } == before
    assert not [
        path.name
        for path in (tmp_path / "out" / "runs").rglob("*")
        if not path.name.startswith(".")
    ]
    assert exit_code(["compare", "out"], monkeypatch) == 2
    assert "imports 'dialog.models.attention.AdditiveScorer'" in capsys.readouterr().err


def test_a_comparison_folder_runs_no_code(
    comparison: Comparison,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A run may import what its contender imports, and nothing else."""
    folder = Path(shutil.copytree(comparison.folder, tmp_path / "received"))
    run = folder / "runs" / "lstm" / "seed-7"
    corpus = f"{{name: subprocess.Popen, args: [touch, {tmp_path / 'executed'}]}}"
    changed = dialog.compose(
        str(run / "recipe.yaml"), ["~data.corpus", f"data.corpus={corpus}"]
    ).recipe
    (run / "recipe.yaml").write_text(json.dumps(to_dict(changed)), encoding="utf-8")
    (run / "manifest.json").unlink()
    monkeypatch.chdir(comparison.recipes)
    assert exit_code(["compare", str(folder), "lstm.yaml", "transformer.yaml"], monkeypatch) == 2
    assert f"{run}: imports 'subprocess.Popen'" in capsys.readouterr().err
    assert not (tmp_path / "executed").exists()


def test_a_seed_on_other_data_is_rejected(
    comparison: Comparison,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The corpus has changed between two seeds."""
    folder = Path(shutil.copytree(comparison.folder, tmp_path / "changed"))
    run = folder / "runs" / "transformer" / "seed-8"
    environment = json.loads((run / "environment.json").read_text(encoding="utf-8"))
    (run / "environment.json").write_text(
        json.dumps({**environment, "data": "other"}), encoding="utf-8"
    )
    (run / "manifest.json").unlink()
    monkeypatch.chdir(comparison.recipes)
    assert (
        exit_code(["compare", str(folder), "lstm.yaml", "transformer.yaml", *QUICK], monkeypatch)
        == 2
    )
    assert f"{run}: data differs from {run.with_name('seed-7')}" in capsys.readouterr().err


def test_recipes_with_different_data_are_rejected(
    comparison: Comparison,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(comparison.recipes)
    text = (comparison.recipes / "transformer.yaml").read_text(encoding="utf-8")
    (tmp_path / "other.yaml").write_text(text.replace("size: 60", "size: 90"), encoding="utf-8")
    arguments = [
        "compare",
        "lstm.yaml",
        str(tmp_path / "other.yaml"),
        "--output",
        str(tmp_path / "out"),
    ]
    assert exit_code(arguments, monkeypatch) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()[-1:]
    assert line.startswith("dialog: ")
    assert "lstm" in line
    assert "other" in line
    assert "data" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lstm.yaml"], "two"),
        (["lstm.yaml", "lstm.yaml"], "twice"),
        (["lstm.yaml", "missing.yaml"], "missing.yaml"),
        (
            ["lstm.yaml", "transformer.yaml", "--output", "out/runs"],
            "out/runs exists and is not a comparison",
        ),
        (
            ["lstm.yaml", "transformer.yaml", "trainer.max_steps=9", "--output", "out"],
            "out: has another lstm (trainer.max_steps is 8 there and 9 here)",
        ),
        (["lstm.yaml", "transformer.yaml", "model.embeding_size=3"], "embeding_size"),
        (["lstm.yaml", "out/runs"], "out/runs is not a run"),
    ],
)
def test_invalid_arguments_print_one_line(
    comparison: Comparison,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(comparison.recipes)
    before = sorted(comparison.recipes.iterdir())
    assert exit_code(["compare", *arguments], monkeypatch) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert message in line
    assert sorted(comparison.recipes.iterdir()) == before


def test_a_study_of_whole_dialogues(comparison: Comparison, tmp_path: Path) -> None:
    folder = tmp_path / "comparison"
    shutil.copytree(comparison.folder, folder)
    out = tmp_path / "study"
    write_study(folder, out, raters=2, items=4, turns=3, trust=trust_of(True))
    (key,) = (folder / "studies").glob("*.json")
    questions = json.loads(key.read_text(encoding="utf-8"))["questions"]
    pairs = {tuple(one["pair"]) for one in questions.values() if "pair" in one}
    assert {pair[:3] for pair in pairs} <= {("lstm", "transformer", run) for run in (0, 1)}
    assert len(pairs) == 4
    with (out / "pairs.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if "pair" in questions[row["id"]]]
    assert {text.count("\n– ") for row in rows for text in (row["a"], row["b"])} == {2}
    choices = [
        {"study": key.stem, "rater": row["id"].partition("-")[0], "id": row["id"], "choice": "a"}
        for row in rows
    ]
    ratings = tmp_path / "ratings.jsonl"
    ratings.write_text("".join(json.dumps(one) + "\n" for one in choices), encoding="utf-8")
    rated = add_ratings(folder, [ratings]).ratings
    assert (rated.pairs[0].ratings, rated.choices) == (8, ())
