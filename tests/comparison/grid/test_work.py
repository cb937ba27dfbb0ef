"""Comparisons with runs that diverge or fail, with other systems, added seeds and contenders, and
unusable folders.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dialog.comparison.grid.contenders import of_recipe, read_contenders
from dialog.comparison.grid.folder import FORMAT, Cell, Grid, read_grid
from dialog.comparison.grid.plan import Request, open_grid, prepare_grid
from dialog.comparison.grid.tuning import tuning_results
from dialog.comparison.grid.work import Work
from dialog.config.compose import Composed, compose
from dialog.errors import UserError
from dialog.escaping import escape_markdown
from dialog.runs.folder import Trained, read_recipe
from dialog.runs.train import PartOf

Compare = Callable[..., tuple[int, str]]
SHORT = [
    "trainer.max_steps=4",
    "trainer.val_check_interval=4",
    "trainer.accumulate_grad_batches=1",
    "preflight=false",
]


@pytest.fixture
def recipes(tiny: Callable[..., Any], tmp_path: Path) -> Path:
    """Folder with recipes: lstm, and wild, whose loss is soon not finite."""
    (tmp_path / "lstm.yaml").write_text(tiny("lstm", *SHORT).yaml(), encoding="utf-8")
    wild = [*SHORT, "optimizer.lr=1e30", "trainer.gradient_clip_val=null"]
    (tmp_path / "wild.yaml").write_text(tiny("transformer", *wild).yaml(), encoding="utf-8")
    return tmp_path


def results(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    return content


def test_a_number_of_seeds_needs_a_recipe(
    compare: Compare, trained: Callable[[str], Path], tmp_path: Path
) -> None:
    code, line = compare(
        str(trained("lstm")),
        str(trained("transformer")),
        "--trust",
        "--seeds",
        "2",
        "--output",
        "out",
    )
    assert (code, line) == (
        2,
        "dialog: --seeds 2: applies to recipes; add trained runs of more seeds instead",
    )
    assert not (tmp_path / "out").exists()


def test_diverged_run_and_other_system(
    recipes: Path, compare: Compare, trained: Callable[[str], Path]
) -> None:
    """A diverged run is counted; a file of responses, added to a comparison with overrides, has no
    likelihood.
    """
    rows = (
        (trained("transformer") / "evaluation/test/responses.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    other = [{key: json.loads(row)[key] for key in ("id", "response")} for row in rows]
    (recipes / "other.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in other), encoding="utf-8"
    )
    assert compare("lstm.yaml", "wild.yaml", "model.dropout=0.1", "--output", "out")[0] == 2
    assert compare("out", "other.jsonl")[0] == 0
    lstm, wild, foreign = results(recipes / "out")["models"]
    assert [run["diverged"] for model in (lstm, wild) for run in model["runs"]] == [False, True]
    assert (wild["runs"][0]["metrics"], wild["summary"]["all"]) == ({}, {})
    assert "wild: 1 of 1 runs diverged (seed 1)" in " ".join(results(recipes / "out")["warnings"])
    assert "\nwild: 1 of 1 runs diverged" in results(recipes / "out")["verdict"], (
        "a line of its own"
    )
    assert (foreign["kind"], foreign["name"]) == ("responses", "other")
    assert "bits_per_byte" not in foreign["summary"]["all"]
    assert foreign["summary"]["all"]["f1"]["mean"] == pytest.approx(
        json.loads(
            (trained("transformer") / "evaluation/test/metrics.json").read_text(encoding="utf-8")
        )["f1"]
    )
    tested = {(entry["a"], entry["b"]) for entry in results(recipes / "out")["differences"]}
    assert tested == {("lstm", "other")}
    for row in results(recipes / "out")["parity"]:
        assert row["values"][2] == "not stated"
        assert "unknown" not in row["values"] or row["what"] == "tuning trials", (
            f"{row['what']} of the diverged run"
        )


def test_failed_run_does_not_stop_the_others(
    recipes: Path, compare: Compare, trained: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed run is reported at the end, and trained by the next command."""
    from dialog.comparison.grid import work

    train = work.train

    def failing(composed: Composed, folder: Path, **options: bool | PartOf) -> Trained:
        if folder.name == "seed-1":
            raise ZeroDivisionError("broken")
        return train(composed, folder, **options)

    monkeypatch.setattr(work, "train", failing)
    arguments = ["lstm.yaml", str(trained("transformer")), "--output", "out", "--seeds", "2"]
    code, line = compare(*arguments)
    assert code == 1
    assert line.startswith(
        "dialog: 1 of 3 runs failed: lstm seed 1: ZeroDivisionError: broken; continue with: "
    )
    assert [run["seed"] for run in results(recipes / "out")["models"][0]["runs"]] == [2]
    assert (
        "lstm seed 1 failed and is missing: ZeroDivisionError: broken"
        in results(recipes / "out")["warnings"]
    )
    monkeypatch.setattr(work, "train", train)
    assert compare("out", "--seeds", "3")[0] == 0
    assert [run["seed"] for run in results(recipes / "out")["models"][0]["runs"]] == [1, 2, 3]
    assert not [*(recipes / "out").rglob(".*.error")]


def test_interrupted_runs_come_first(recipes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that was interrupted is finished before new ones are started, whatever its seed."""
    work = Work(
        Grid(recipes / "out", (of_recipe(compose(str(recipes / "lstm.yaml"), SHORT)),), (1, 2, 3)),
        advice="",
    )
    interrupted = work.cells[1].folder
    interrupted.mkdir(parents=True)
    shutil.copy(recipes / "lstm.yaml", interrupted / "recipe.yaml")
    order: list[int | None] = []

    def failing(cell: Cell) -> None:
        order.append(cell.seed)
        raise UserError("enough")

    monkeypatch.setattr(work, "finish", failing)
    work.run()
    assert order == [2, 1, 3]


def test_systems_without_a_recipe(
    recipes: Path, compare: Compare, trained: Callable[[str], Path]
) -> None:
    """Files of responses alone are compared as systems; one with another number of lines or test
    set is rejected.
    """
    answers = (trained("lstm") / "evaluation/test/responses.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in answers.splitlines()]
    fields = ("id", "context", "reference", "response")
    files = {
        "one": rows,
        "two": [{**row, "response": row["reference"]} for row in rows],
        "missing": rows[:-1],
        "double": [*rows, rows[0]],
        "other": [
            {**row, "context": ["Hi"], "reference": "Ho", "id": f"x{row['id']}"} for row in rows
        ],
    }
    for name, lines in files.items():
        text = "".join(json.dumps({field: row[field] for field in fields}) + "\n" for row in lines)
        (recipes / f"{name}.jsonl").write_text(text, encoding="utf-8")
    messages = {
        "missing": "no response to 1 of",
        "double": "is listed twice",
        "other": "is not in the test set",
    }
    for name, message in messages.items():
        code, line = compare("one.jsonl", f"{name}.jsonl", "--output", "out")
        assert (code, message in line) == (2, True), line
    code, line = compare("one.jsonl", "two.jsonl", "--strict", "--output", "out")
    assert (code, "the settings of one, two are not known" in line) == (2, True), line
    assert results(recipes / "out")["parity"] == []
    assert compare("out")[0] == 0
    verdict = results(recipes / "out")["verdict"]
    assert "two 100.00 in F1" in verdict or "two 100.00, a difference" in verdict
    assert "Each system answered once" in verdict
    assert [model["summary"]["all"]["f1"]["mean"] for model in results(recipes / "out")["models"]][
        1
    ] == 100


def test_responses_are_measured_again_with_a_recipe(
    recipes: Path, compare: Compare, trained: Callable[[str], Path]
) -> None:
    """It names the training split, so the leak is known, and the test set, so examples have the
    order of the corpus.
    """
    answers = (
        (trained("lstm") / "evaluation/test/responses.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    for name in ("one", "two"):
        (recipes / f"{name}.jsonl").write_text("\n".join(answers[::-1]) + "\n", encoding="utf-8")
    assert compare("one.jsonl", "two.jsonl", "--output", "out")[0] == 0
    assert not any(
        "subsets" in model["runs"][0]["metrics"] for model in results(recipes / "out")["models"]
    )
    assert compare("out", str(trained("lstm")))[0] == 0
    responses, _, run = (
        model["runs"][0]["metrics"] for model in results(recipes / "out")["models"]
    )
    assert (responses["fingerprint"], responses["f1"]) == (run["fingerprint"], run["f1"])
    assert responses["subsets"].keys() == run["subsets"].keys()


def test_runs_on_other_examples_are_not_paired(
    recipes: Path, compare: Compare, trained: Callable[[str], Path]
) -> None:
    """The corpus was in another order when the file was measured."""
    (recipes / "one.jsonl").write_bytes(
        (trained("lstm") / "evaluation/test/responses.jsonl").read_bytes()
    )
    assert compare("one.jsonl", str(trained("lstm")), "--output", "out")[0] == 0
    (measured,) = (recipes / "out" / "runs" / "one").rglob("responses.jsonl")
    rows = measured.read_text(encoding="utf-8").splitlines()
    measured.write_text("\n".join(rows[::-1]) + "\n", encoding="utf-8")
    code, line = compare("out")
    assert (code, "evaluation/test/responses.jsonl: has changed" in line) == (2, True), line
    (measured.parent / "manifest.json").unlink()
    code, line = compare("out")
    assert (code, "or in another order; remove what is listed first" in line) == (2, True), line
    assert "one/evaluation" in line.partition(": measured on other examples")[0]
    shutil.rmtree(measured.parent)
    assert compare("out")[0] == 0


def test_tokenizers_may_differ(recipes: Path, compare: Compare) -> None:
    """Bits per byte are tested, metrics per token are not, and the parity contract shows it
    first.
    """
    text = (recipes / "lstm.yaml").read_text(encoding="utf-8")
    (recipes / "small.yaml").write_text(
        text.replace("vocabulary: 400", "vocabulary: 300"), encoding="utf-8"
    )
    code, line = compare("lstm.yaml", "small.yaml", "--strict", "--output", "out")
    assert (code, "the contenders differ in tokenizer: " in line) == (2, True), line
    assert compare("lstm.yaml", "small.yaml", "--output", "out")[0] == 0
    compared = results(recipes / "out")
    methods = {
        row["metric"]: row["method"] for row in compared["differences"] if row["subset"] == "all"
    }
    assert methods["bits_per_byte"].startswith("paired")
    assert methods["perplexity_token"].startswith("not tested: the tokenizers differ")
    assert (compared["parity"][0]["what"], compared["parity"][0]["equal"]) == ("tokenizer", False)
    assert {entry["axis"] for entry in compared["crossings"]} <= {"seconds", "flops"}


def test_strict_rejects_before_training(recipes: Path, compare: Compare) -> None:
    other = (
        (recipes / "lstm.yaml").read_text(encoding="utf-8").replace("max_steps: 4", "max_steps: 8")
    )
    (recipes / "longer.yaml").write_text(other, encoding="utf-8")
    code, line = compare("lstm.yaml", "longer.yaml", "--strict", "--output", "out")
    assert code == 2
    assert line.startswith("dialog: --strict: the contenders differ in training budget: 4 steps of")
    assert not (recipes / "out").exists()


def test_strict_rejects_after_training(
    recipes: Path, compare: Compare, caplog: pytest.LogCaptureFixture
) -> None:
    """Early stopping ends one contender after 4 of 8 steps; the report is written, and a plain
    command accepts it.
    """
    longer = ["trainer.max_steps=8", "trainer.val_check_interval=2", "checkpoint.patience=1"]
    text = (recipes / "lstm.yaml").read_text(encoding="utf-8")
    assert "lr: 0.01" in text
    (recipes / "still.yaml").write_text(text.replace("lr: 0.01", "lr: 1.0e-30"), encoding="utf-8")
    arguments = ["lstm.yaml", "still.yaml", *longer, "--output", "out"]
    code, line = compare(*arguments, "--strict")
    assert code == 2
    assert line.startswith(
        "dialog: --strict: the contenders differ in target tokens seen (within 10 %): "
    )
    assert line.rstrip().endswith("; the report is in out/report.html")
    assert [
        run["steps"] for model in results(recipes / "out")["models"] for run in model["runs"]
    ] == [8, 4]
    assert (recipes / "out" / "report.html").is_file()
    assert compare("out", "--strict")[0] == 2
    assert compare("out")[0] == 0
    caplog.clear()
    assert compare(*arguments[:2], "--output", "out")[0] == 0
    assert caplog.messages[0] == f"out: continued with its settings, {' '.join(longer)}"


# ------------------------------------------------------------------ tuning

RATES = "optimizer.lr=0.01,0.0001"


def test_trials_choose_the_values_of_each_recipe(
    recipes: Path, compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chosen trial is the run of the first seed. A later command trains a trial that failed,
    keeps the choices, and adds seeds to them.
    """
    from dialog.comparison.grid import work

    train = work.train
    folders: list[str] = []

    def recorded(composed: Composed, folder: Path, **options: bool | PartOf) -> Trained:
        folders.append(str(folder.relative_to("out")))
        if len(folders) == 4:
            raise UserError("broken")
        return train(composed, folder, **options)

    monkeypatch.setattr(work, "train", recorded)
    arguments = ["lstm.yaml", "--vary", "model.encoder.size=8,16", "--tune", RATES]
    names = ["lstm[size=8]", "lstm[size=16]"]
    trials = [f"tuning/{name}/lr={rate}" for rate in ("0.01", "0.0001") for name in names]
    code, line = compare(*arguments, "model.decoder.attention.name=none", "--output", "out")
    assert (code, folders) == (2, trials)
    assert "1 of 6 runs failed: lstm[size=16] trial lr=0.0001: broken" in line
    shutil.rmtree(recipes / "out" / trials[2])
    assert compare("out", *arguments, "--seeds", "2")[0] == 0
    assert folders[4:] == [trials[3], *(f"runs/{name}/seed-2" for name in names)]
    compared = results(recipes / "out")
    for model, name in zip(compared["models"], names, strict=True):
        runs = [run["folder"] for run in model["runs"]]
        assert (model["trials"], runs) == (2, [f"tuning/{name}/lr=0.01", f"runs/{name}/seed-2"])
        assert [read_recipe(recipes / "out" / run).optimizer["lr"] for run in runs] == [0.01] * 2
    chosen = {row["folder"]: row["chosen"] for row in compared["tuning"]}
    assert chosen == {trial: trial.endswith("lr=0.01") for trial in trials}
    report = (recipes / "out/report.md").read_text(encoding="utf-8")
    page = (recipes / "out/report.html").read_text(encoding="utf-8")
    assert "## Tuning" in report
    for row in compared["tuning"]:
        assert escape_markdown(row["folder"]) in report
        assert row["folder"] in page


def test_diverged_trials(recipes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lowest loss of the trials that have not diverged counts; it is kept once it is written; a
    recipe without any is an error.
    """
    values = "model.dropout=0,0.1,0.2"
    contenders = tuple(
        of_recipe(compose(str(recipes / name), SHORT), [values])
        for name in ("lstm.yaml", "wild.yaml")
    )
    grid = Grid(recipes / "out", contenders, (7,))
    losses = {"lstm": {"0": [1.0, 0.5], "0.1": [0.8, 0.7], "0.2": [0.9, None]}, "wild": {}}
    for cell in Work(grid, advice="").cells:
        if not cell.trial:
            continue
        own = losses[cell.contender.name].get(cell.trial.removeprefix("dropout="), [])
        cell.folder.mkdir(parents=True)
        lines = [json.dumps({"validation/bits_per_byte": loss}) + "\n" for loss in own]
        (cell.folder / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
        ended = "diverged.json" if own in ([], [1.0, 0.5]) else "summary.json"
        spent = {"seconds": 2.0, "steps": 1, "target_tokens": 1}
        (cell.folder / ended).write_text(json.dumps(spent), encoding="utf-8")
    work = Work(grid, advice="")
    assert work.grid.chosen == {"lstm": "dropout=0.1"}
    assert [cell.folder.name for cell in work.open_cells()] == ["dropout=0.1"]
    assert [(name, error["code"]) for name, error in work.errors().items()] == [("wild", 2)]
    rows = [(row.bits_per_byte, row.chosen) for row in tuning_results(work.grid)]
    assert rows == [(None, False), (0.7, True), (0.9, False), *[(None, False)] * 3]
    shutil.rmtree(recipes / "out/tuning/lstm/dropout=0.1")
    work = Work(grid, advice="")
    assert [cell.name for cell in work.open_cells()] == ["lstm seed 7"]
    (recipes / "out/tuning/lstm/chosen.json").write_text('{"bits_per_byte": {}}', encoding="utf-8")
    with pytest.raises(UserError, match=r"tuning/lstm/chosen\.json: damaged"):
        Work(grid, advice="")


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        (["--tune", "optimizer.lr=0.1"], ("optimizer.lr=0.1", "single value")),
        (["--tune", "optimizer.rate=1,2"], ("lstm", "rate", "unknown argument")),
        (["--tune", "model.droput=0.1,0.2"], ("--tune", "model.droput", "unknown key")),
        (["--tune", "seed=1,2"], ("seed=1,2",)),
        (
            ["--tune", "model.dropout=0,0.1", "--vary", "model.dropout=0.2,0.3"],
            ("--tune model.dropout", "--vary"),
        ),
        (["--tune", "data.context_turns=1,2"], ("different test sets", "context_turns=1")),
    ],
)
def test_invalid_values_to_tune(
    recipes: Path, compare: Compare, arguments: list[str], facts: tuple[str, ...]
) -> None:
    code, line = compare("lstm.yaml", "wild.yaml", *arguments, "--output", "out")
    assert code == 2
    assert all(fact in line for fact in facts), line
    assert not (recipes / "out").exists()


def test_other_values_than_the_folder_has(recipes: Path, compare: Compare) -> None:
    """The values of a folder are those of all its recipes; other systems have none."""
    systems = ["one.jsonl", "two.jsonl"]
    for name in systems:
        (recipes / name).write_text("{}", encoding="utf-8")
    code, line = compare(*systems, "--tune", RATES, "--output", "out")
    assert (code, RATES in line) == (2, True), line
    two = read_contenders(["lstm.yaml"], [], ["model.encoder.size=8,16"], tune=[RATES])
    open_grid(Path("tuned"), two, [1], (), "")
    open_grid(Path("plain"), [replace(one, tune=()) for one in two], [1], (), "")
    more = prepare_grid(Request(["tuned", "wild.yaml"]))
    assert [contender.tune for contender in more.contenders] == [(RATES,)] * 3
    assert read_grid(Path("tuned")) == more
    for folder, has in (("tuned", RATES), ("plain", "without")):
        code, line = compare(folder, "--tune", "optimizer.lr=1,2")
        assert (code, has in line) == (2, True), line
    (folder,) = Path("tuned").glob("grid.json")
    folder.write_text(folder.read_text().replace(RATES, "optimizer.lr=0.1,"), encoding="utf-8")
    code, line = compare("tuned")
    assert (code, "tuned/grid.json: damaged" in line) == (2, True), line


# ------------------------------------------------------------------ folders


def grid(folder: Path, **changes: object) -> Path:
    folder.mkdir()
    values = {
        "format": FORMAT,
        "version": "9.9",
        "contenders": [],
        "seeds": [1],
        "overrides": [],
        "commands": [],
    }
    (folder / "grid.json").write_text(json.dumps({**values, **changes}), encoding="utf-8")
    return folder


def test_folders_of_other_versions_and_damaged_ones(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"grid\.json: has format 99, written by dialog 9\.9; this is dialog"
    ):
        read_grid(grid(tmp_path / "newer", format=99))
    folder = grid(tmp_path / "damaged")
    (folder / "grid.json").write_text(
        '{"format": 1, "version": "1", "contenders": []}', encoding="utf-8"
    )
    with pytest.raises(UserError, match=r"grid\.json: damaged \(no seeds\)"):
        read_grid(folder)
    with pytest.raises(UserError, match=r"grid\.json: damaged"):
        read_grid(grid(tmp_path / "entry", contenders=[{"name": "x"}]))
    with pytest.raises(UserError, match=r"is not a comparison folder: it has no grid\.json"):
        read_grid(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["old", "model.dropout=0"], "model.dropout=0: applies to new recipes only"),
        (["old", "--output", "new"], "old is a comparison folder already; remove --output new"),
        (["old"], "compare needs at least two contenders"),
        (
            ["lstm.yaml", "missing.jsonl"],
            "missing.jsonl does not exist; give a recipe, a run folder, or a file",
        ),
        (
            ["lstm.yaml", "lstm.yaml", "--output", "file"],
            "file exists and is not a comparison folder",
        ),
    ],
)
def test_invalid_commands(
    recipes: Path, compare: Compare, arguments: list[str], message: str
) -> None:
    grid(recipes / "old", contenders=[])
    (recipes / "file").touch()
    contender = {
        "name": "x",
        "kind": "responses",
        "hash": "",
        "recipe": {},
        "folders": {},
        "file": "x.jsonl",
    }
    shutil.rmtree(recipes / "old")
    grid(recipes / "old", contenders=[contender])
    before = sorted(recipes.rglob("*"))
    code, line = compare(*arguments)
    assert code == 2
    assert line.startswith(f"dialog: {message}")
    assert sorted(recipes.rglob("*")) == before
