"""benchmarks/results/run.py on two tiny recipes: stopped, killed, continued, with a failing recipe,
recorded.
"""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from queue_texts import OVERRIDES, QUEUE, SCRIPT, Call

from dialog.atomic import lock
from dialog.config.compose import compose, shipped_recipes


def lines(folder: Path) -> int:
    return (
        (folder / "metrics.jsonl").read_bytes().count(b"\n")
        if (folder / "metrics.jsonl").is_file()
        else 0
    )


@pytest.mark.endurance
def test_stopped_or_killed_queue_continues_and_records(
    tmp_path: Path, queue: list[str], call: Call
) -> None:
    out = tmp_path / "out"
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[2])}

    def start_until_training(name: str) -> tuple[subprocess.Popen[str], Path]:
        command = [sys.executable, str(SCRIPT), *queue]
        started = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 120
        while not (
            training := [path for path in out.glob(f"quickstart-{name}-1-*") if lines(path)]
        ):
            assert started.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return started, training[0]

    started, stopped = start_until_training("lstm_bahdanau")
    started.send_signal(signal.SIGTERM)
    _, messages = started.communicate(timeout=60)
    assert started.returncode == 143
    assert (
        messages.splitlines()[-1]
        == f"stopped by SIGTERM; continue with: {shlex.join(['python', str(SCRIPT), *queue])}"
    )
    assert not (stopped / "summary.json").exists()
    stopped.rename(out / "of-another-name")  # a run of the same recipe and seed is adopted
    _, before = call("--status")
    assert "  quickstart/lstm_bahdanau seed 1  stopped after" in before
    assert (
        "unknown recipe 'quickstart/transformr'; did you mean 'quickstart/transformer'?; about 30"
        " min 00 s left" in before
    )
    assert before.splitlines()[0] == "a first: two recipes"
    started, killed = start_until_training("transformer")
    started.kill()
    started.communicate()
    assert not (killed / "summary.json").exists()

    code, printed = call()
    assert code == 2
    assert (
        "1 of 2 entries failed: second: unknown: unknown recipe 'quickstart/transformr'"
        in printed.splitlines()[-1]
    )
    runs = {path.parent.name for path in out.glob("*/summary.json")}
    assert runs == {"of-another-name", killed.name}
    assert min(lines(out / "of-another-name"), lines(killed)) >= 12

    _, after = call("--status")
    assert after.count("finished in") == 3
    assert ", see first" in after
    assert "core hours left, by stage: a 0.0, b 0.5; in all 0.5" in after
    (killed / "evaluation").rename(tmp_path / "evaluation")
    assert (
        "quickstart/transformer seed 1    trained, not evaluated\n"
        in call("--status", "--only", "first")[1]
    )
    with lock(out / f".{killed.name}.lock"):
        assert (
            "quickstart/transformer seed 1    being evaluated\n"
            in call("--status", "--only", "first")[1]
        )
    (tmp_path / "evaluation").rename(killed / "evaluation")

    (tmp_path / "recipes" / "quickstart").mkdir(parents=True)
    readme = tmp_path / "recipes" / "quickstart" / "README.md"
    readme.write_text(
        "# Quickstart\n\n<!-- results: first -->\nold\n<!-- end of results -->\n\nMore.\n"
    )
    call("--record", "--only", "first")
    text = readme.read_text()
    assert "| `quickstart/transformer` |" in text
    assert "old" not in text
    assert text.endswith("<!-- end of results -->\n\nMore.\n")
    assert "`python benchmarks/results/run.py --only first` at " in text
    appendix = readme.with_name("appendix.md").read_text()
    assert text.partition("-->\n")[2].partition("<!--")[0].strip() in appendix
    assert "Not recorded yet: `python benchmarks/results/run.py --only second`" in appendix
    path = tmp_path / "records" / "quickstart" / "first.json"
    record = json.loads(path.read_text())
    (run,) = record["recipes"][0]["runs"]
    assert run["curve"]["step"] == [4, 8, 12]
    assert len(run["curve"]["validation/bits_per_byte"]) == 3
    from record_table import to_markdown

    metrics = json.loads(
        (out / "of-another-name" / "evaluation" / "test" / "metrics.json").read_text()
    )
    rows = metrics["baselines"]
    bits, order = min((rows[f"ngram_{order}"]["bits_per_byte"], order) for order in range(1, 6))
    assert f"| {order}-gram ‡ | {bits:.3f} | – | – | – | – | – | – |" in text
    assert f"| copy ‡ | – | – | {rows['copy']['f1']:.2f} | – | – | – | – |" in text
    assert to_markdown(record) in text, "the table is that of the record, whose numbers are rounded"
    clean = metrics["subsets"]["clean"]["baselines"]["copy"]["f1"]
    assert record["references"]["clean"]["copy"] == {"f1": pytest.approx(clean, rel=1e-5)}
    run["commits"] = ["0123456-dirty"]
    assert re.search(r"lstm_bahdanau` \| \d\.\d+ \|.* 1 \|", to_markdown(record))
    assert " at 0123456-dirty" in to_markdown(record)
    assert run["metrics"]["bits_per_byte"] == pytest.approx(metrics["bits_per_byte"], rel=1e-5)
    assert {item["metric"] for item in record["differences"]} >= {
        "bits_per_byte",
        "f1",
        "hits_1_of_20",
    }, "all metrics"
    assert_analyses_are_those_of_the_comparison(
        record, next(out.glob("comparisons/first-*/results.json"))
    )
    assert_pooled_verdict_is_that_of_the_comparison(record)

    record = json.loads(path.read_text())
    for folder in runs:  # the output folder of another machine, with one of the runs
        (out / folder).rename(tmp_path / folder)
    (tmp_path / "of-another-name").rename(out / "of-another-name")
    call("--record", "--only", "first")
    assert json.loads(path.read_text()) == record, "recorded runs are kept, with their verdict"
    assert "  all seeds are recorded" in call("--status", "--unrecorded", "--only", "first")[1]
    queue_file = tmp_path / "queue.yaml"
    queue_file.write_text(QUEUE.replace("purpose: two recipes", "purpose: two recipes\n  seeds: 2"))
    _, status = call("--status", "--unrecorded", "--only", "first")
    assert re.findall(r"seed \d", status) == ["seed 2", "seed 2"]
    queue_file.write_text(QUEUE)
    text = path.read_text().replace('"seed": 1', '"seed": 2')
    path.write_text(text)
    call("--record", "--only", "first")
    merged = json.loads(path.read_text())
    assert [[run["seed"] for run in row["runs"]] for row in merged["recipes"]] == [[1, 2], [2]]
    assert merged["missing"] == ["quickstart/transformer seed 1"]
    assert "transformer was trained once" in merged["verdict"]
    assert {item["metric"] for item in merged["differences"]} == {"bits_per_byte"}
    broken = QUEUE.replace(
        "quickstart/transformer: 0.1}",
        "quickstart/transformer: {hours: 0.1, overrides: [model.unknown=1]}}",
    )
    queue_file.write_text(broken)
    call("--record", "--only", "first")
    assert len(json.loads(path.read_text())["recipes"]) == 2, (
        "a recipe that cannot be composed keeps its runs"
    )
    queue_file.write_text(QUEUE)
    path.write_text(text.replace(record["recipes"][0]["hash"], "of an older recipe"))
    call("--record", "--only", "first")
    assert [run["seed"] for run in json.loads(path.read_text())["recipes"][0]["runs"]] == [1]


def test_status_counts_runs_of_one_recipe_with_other_overrides(call: Call, tmp_path: Path) -> None:
    other = QUEUE.replace("model.embedding_size=8", "model.embedding_size=16", 1)
    (tmp_path / "queue.yaml").write_text(other)
    _, status = call("--status")
    assert ", see first" not in status
    assert "core hours left, by stage: a 0.2, b 0.6; in all 0.8" in status


def assert_analyses_are_those_of_the_comparison(record: dict[str, Any], results: Path) -> None:
    """The use of the context and the mean attention of each run."""
    compared = json.loads(results.read_text())
    assert compared["context_use"]["rows"]
    assert len(compared["attention"]["statistics"]) == 2
    runs = {row["name"]: row["runs"][0]["metrics"] for row in record["recipes"]}
    for change in compared["context_use"]["rows"]:
        for name, value in change["values"].items():
            found = runs[name]["context_use"][change["perturbation"].replace(" ", "_")]
            assert found == pytest.approx(value["mean"], rel=1e-4)
    for measured in compared["attention"]["statistics"]:
        rows = {row["module"]: row for row in measured["rows"]}
        for module, found in runs[measured["model"]]["attention"].items():
            assert found["entropy"] == pytest.approx(rows[module]["entropy"], abs=1e-4)
        assert runs[measured["model"]]["attention"].keys() == {"mean", "uniform"}


def assert_pooled_verdict_is_that_of_the_comparison(record: dict[str, Any]) -> None:
    """Runs of several machines are compared by their recorded sums; here all of them are of this
    one.
    """
    from pooled import pooled_verdict

    pooled = pooled_verdict(record["recipes"])
    expected = [item for item in record["differences"] if item["metric"] == "bits_per_byte"]
    assert [item["subset"] for item in pooled["differences"]] == [
        item["subset"] for item in expected
    ]
    for item, other in zip(pooled["differences"], expected, strict=True):
        assert item["difference"] == pytest.approx(other["difference"], rel=1e-3)
        assert item["interval"] == pytest.approx(other["interval"], rel=1e-3)
        assert item["p"] == pytest.approx(other["p"], abs=1e-3)
    for row in record["recipes"]:
        for nll, size, unknown in [run["dialogue_sums"] for run in row["runs"]]:
            bits = (sum(nll) / math.log(2) + 8 * sum(unknown)) / sum(size)
            assert bits == pytest.approx(row["runs"][0]["metrics"]["bits_per_byte"], rel=1e-5)
    assert pooled_verdict(record["recipes"][:1])["verdict"] == ""
    (run,) = record["recipes"][0]["runs"]
    other = {**record["recipes"][1], "runs": [{**run, "fingerprint": "of another test set"}]}
    assert pooled_verdict([record["recipes"][0], other])["verdict"] == ""
    del run["dialogue_sums"]
    assert pooled_verdict(record["recipes"]) == {"verdict": "", "differences": []}


SWEEP = """
tuned:
  stage: b
  purpose: the best of a sweep
  tuned_by: search
  recipes: {quickstart/transformer: 0.1}
  overrides: [trainer.max_steps=5]
search:
  stage: a
  purpose: two trials
  sweep: [quickstart/transformer]
  trials: 2
  space: SPACE
  overrides: OVERRIDES
  hours: 0.2
"""


def trials(sweep: Path) -> list[dict[str, object]]:
    (recipe,) = json.loads((sweep / "results.json").read_text())["recipes"]
    return list(recipe["trials"])


@pytest.mark.endurance
def test_recorded_sweep_continues_elsewhere(
    call: Call, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "space.yaml").write_text("all: {model.dropout: {low: 0.1, high: 0.4}}\n")
    text = SWEEP.replace("SPACE", str(tmp_path / "space.yaml")).replace(
        "OVERRIDES", OVERRIDES.replace("12", "4")
    )
    (tmp_path / "queue.yaml").write_text(text.replace("trials: 2", "trials: 1"))
    call("--only", "search")
    call("--record", "--only", "search")
    page = tmp_path / "recipes" / "quickstart" / "appendix.md"
    assert page.read_text().count("| `quickstart/transformer` |") == 1
    recorded = tmp_path / "sweeps" / "search"
    assert not (recorded / "runs").exists()
    (tmp_path / "out").rename(tmp_path / "lost")

    (tmp_path / "queue.yaml").write_text(text)
    _, status = call("--status")
    assert "1 of 2 trials" in status
    assert "waits for the sweep search" in status
    assert call("--only", "search")[0] == 0
    first, second = json.loads(
        (tmp_path / "out" / "sweeps" / "search" / "results.json").read_text()
    )["recipes"][0]["trials"]
    assert first == json.loads((recorded / "results.json").read_text())["recipes"][0]["trials"][0]
    assert second["overrides"] != first["overrides"]
    _, status = call("--status")
    assert "quickstart/transformer seed 1  not started" in status
    call("--record", "--only", "search")
    assert page.read_text().count("| `quickstart/transformer` |") == 2

    from entries import compose_row, overrides_of, read_queue

    from dialog.comparison.grid.folder import contender_hash

    (tuned,) = (entry for entry in read_queue(tmp_path / "queue.yaml") if entry.name == "tuned")
    composed = compose_row(tuned, tuned.rows[0], tmp_path / "out")
    overrides = overrides_of(tuned, tuned.rows[0], tmp_path / "out")
    assert contender_hash(compose("quickstart/transformer", overrides).recipe) == contender_hash(
        composed.recipe
    )
    assert [text for text in overrides if text.startswith("trainer.max_steps=")] == [
        "trainer.max_steps=5"
    ]
    (tmp_path / "out").rename(tmp_path / "newer")
    (tmp_path / "lost").rename(tmp_path / "out")
    call("--record", "--only", "search")
    assert "fewer trials than the recorded sweep, which is kept" in caplog.text
    assert len(trials(recorded)) == 2
    shutil.rmtree(tmp_path / "out" / "sweeps" / "search" / "runs")
    assert "2 of 2 trials" in call("--status")[1]


def test_run_on_other_data_is_left_alone_and_named(call: Call, tmp_path: Path) -> None:
    call("--status", "--only", "a")
    from tables import run_folder

    from dialog.comparison.grid.folder import Contender

    contender = Contender("quickstart/transformer", "recipe", "hash")
    folder = tmp_path / "quickstart-transformer-1-12345678"
    folder.mkdir()
    (folder / "recipe.yaml").write_text("seed: 1\n")
    (folder / "environment.json").write_text(json.dumps({"data": "before"}))
    existing = {("hash", 1): [folder]}
    notes: list[str] = []
    assert run_folder(tmp_path, contender, 1, existing, "before", notes) == folder
    # data not prepared, for --status
    assert run_folder(tmp_path, contender, 1, existing, None, notes) == folder
    assert not notes
    other = run_folder(tmp_path, contender, 1, existing, "after", notes)
    assert other != folder
    assert not other.exists()
    assert notes == [
        "quickstart-transformer-1-12345678: trained on other data (before, now after), not used"
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ("stage: a", "stage: g"),
            r"queue.yaml:\d+: first.stage: must be one of a, b, c, d, e, f, not 'g'",
        ),
        (
            ("columns:", "colums:"),
            r"queue.yaml:\d+: first.colums: unknown key; did you mean 'columns'",
        ),
        (("  purpose: two recipes\n", ""), r"queue.yaml:\d+: first: has no purpose"),
        (
            ("columns: [bits_per_byte, answer_accuracy, f1]", "columns: f1"),
            r"first.columns: must be a list, not 'f1'",
        ),
        (("columns: [", "tuned_by: nothing # ["), r"queue.yaml:\d+: unknown sweep 'nothing'"),
        (
            ("quickstart/transformer: 0.1}", "quickstart/transformer: {}}"),
            "quickstart/transformer: must be core hours",
        ),
    ],
)
def test_faults_of_the_queue_are_named(
    change: tuple[str, str], message: str, tmp_path: Path, call: Call
) -> None:
    (tmp_path / "queue.yaml").write_text(QUEUE.replace(*change))
    code, printed = call("--status")
    assert code == 2
    assert re.search(message, printed)


@pytest.mark.endurance
def test_shipped_queue_composes(call: Call, tmp_path: Path) -> None:
    """Every recipe that states results, with its overrides; those of a sweep with the recipe that
    the sweep starts from.
    """
    call("--status", "--only", "first")
    from entries import compose_row, read_queue

    entries = read_queue(SCRIPT.with_name("queue.yaml"))
    assert [entry.stage for entry in entries] == sorted(entry.stage for entry in entries)
    for entry in entries:
        for row in entry.rows:
            assert compose_row(replace(entry, tuned_by=""), row, tmp_path).recipe.about.summary
    listed = {row.recipe for entry in entries for row in entry.rows}
    assert listed == {name for name in shipped_recipes() if compose(name).recipe.expect}
