"""Records of the queue: shared between tables and machines, and their numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from queue_texts import OVERRIDES, QUEUE, Call

if TYPE_CHECKING:
    from tables import Table

RECORDED = f"""
pair:
  stage: c
  purpose: all runs are recorded
  recipes: &pair
    quickstart/lstm_bahdanau: 0.1
    small: {{recipe: quickstart/transformer, overrides: [model.embedding_size=16], hours: 0.1}}
  overrides: {OVERRIDES}
unknown:
  stage: c
  purpose: all runs but those of an unknown recipe are recorded
  recipes: {{<<: *pair, quickstart/lstm_bahdanu: 0.1}}
  overrides: {OVERRIDES}
"""


def table_of(folder: Path, recipes: dict[str, str], seeds: int) -> Table:
    from entries import Entry, Row
    from tables import Table

    from dialog.comparison.grid.folder import Grid

    rows = tuple(Row(name, recipe, (), 0.1) for name, recipe in recipes.items())
    grid = Grid(folder, (), tuple(range(1, seeds + 1)))
    return Table(Entry("a", "first", "", rows, seeds=seeds), grid, {}, dict.fromkeys(recipes, "h"))


@pytest.mark.endurance
def test_tables_share_recorded_runs(
    tmp_path: Path, queue: list[str], call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    wide = QUEUE.replace("second:", "wide:").replace(
        "unknown: {recipe: quickstart/transformr, hours: 0.5}",
        "quickstart/transformer: 0.1\n    small: {recipe: quickstart/transformer, overrides:"
        " [SMALL], hours: 0.1}",
    )
    (tmp_path / "queue.yaml").write_text(wide.replace("SMALL", "model.embedding_size=16"))
    assert call("--only", "first")[0] == 0
    (results,) = (tmp_path / "out").glob("comparisons/first-*/results.json")
    results.rename(tmp_path / "results.json")
    call("--record", "--only", "first")
    assert "compare first: python benchmarks/results/run.py --only first" in caplog.text
    compared = json.loads((tmp_path / "results.json").read_text())
    rated = {
        "a": "quickstart/lstm_bahdanau",
        "b": "small",
        "ratings": 10,
        "pairs": 10,
        "chosen_a": 9,
        "chosen_b": 1,
        "share": 0.9,
        "interval": [0.6, 1.0],
        "p": 0.0215,
    }
    results.write_text(json.dumps({**compared, "ratings": {"pairs": [rated]}}))
    caplog.clear()
    call("--record", "--only", "first")
    assert "compare first" not in caplog.text
    (tmp_path / "out").rename(tmp_path / "lost")

    rows = call("--status", "--unrecorded", "--only", "wide")[1].splitlines()
    assert [row.split("  ")[1] for row in rows[1:-1]] == ["small seed 1"]
    assert call("--unrecorded", "--only", "wide")[0] == 0
    (summary,) = (tmp_path / "out").glob("*/summary.json")
    assert summary.parent.name.startswith("small-1-")
    another = {"cpu": "another", "gpu": "none", "cores": 9, "threads": 4, "torch": "9"}
    (summary.parent / "moved.json").write_text(json.dumps({"machines": [another]}))
    call("--record", "--only", "wide")
    first, record = (
        json.loads((tmp_path / "records" / "quickstart" / f"{name}.json").read_text())
        for name in ("first", "wide")
    )
    assert record["recipes"][:2] == first["recipes"]
    assert record["recipes"][2]["name"] == "small"
    (run,) = record["recipes"][2]["runs"]
    assert run["metrics"]["context_use"], "measured as in a comparison"
    assert (run["threads"], run["hardware"].partition(", then ")[2]) == (
        4,
        "another, 9 cores",
    ), "moved"
    page = (tmp_path / "recipes" / "quickstart" / "appendix.md").read_text()
    assert (
        " by 0 raters: lstm_bahdanau better in 9 pairs of responses, small in 1, 0 ties; p: 0.021."
        in page
    )
    table = page.partition("## wide")[2]
    trained = first["recipes"][0]["runs"][0]["hardware"]
    assert f"; {trained} and another, 9 cores, 1 or 4 threads, {run['precision']}; " in table, (
        "each machine once"
    )
    assert record["missing"] == []
    assert {item["metric"] for item in record["differences"]} == {"bits_per_byte"}
    assert len([item for item in record["differences"] if item["subset"] == "all"]) == 3
    assert "  all seeds are recorded" in call("--status", "--unrecorded", "--only", "wide")[1]

    (tmp_path / "out").rename(tmp_path / "lost too")
    (tmp_path / "queue.yaml").write_text(RECORDED)
    rows = call("--status", "--unrecorded", "--only", "unknown")[1].splitlines()
    assert [row.split("  ")[1] for row in rows[1:-1]] == ["quickstart/lstm_bahdanu"], (
        "the other row is recorded"
    )
    call("--record", "--only", "pair")
    path = tmp_path / "records" / "quickstart" / "pair.json"
    joined = json.loads(path.read_text())
    assert [len(row["runs"]) for row in joined["recipes"]] == [1, 1]
    assert joined["verdict"]
    assert joined["missing"] == []
    written = path.stat().st_mtime_ns
    call("--record", "--only", "pair")
    assert path.stat().st_mtime_ns == written, "a record to which nothing is added is not written"


@pytest.mark.endurance
def test_trained_runs_are_compared_in_all_metrics(tmp_path: Path, call: Call) -> None:
    """A table that lacks seeds: nothing more is trained, and the verdict is that of `compare`."""
    assert call("--only", "first")[0] == 0
    trained = sorted((tmp_path / "out").glob("*/summary.json"))
    (tmp_path / "queue.yaml").write_text(
        QUEUE.replace("purpose: two recipes", "purpose: two recipes\n  seeds: 2")
    )
    path = tmp_path / "records" / "quickstart" / "first.json"

    def recorded_metrics() -> set[str]:
        call("--record", "--only", "first")
        record = json.loads(path.read_text())
        assert record["missing"] == [
            "quickstart/lstm_bahdanau seed 2",
            "quickstart/transformer seed 2",
        ]
        assert "Each model was trained once" in record["verdict"]
        return {item["metric"] for item in record["differences"]}

    assert recorded_metrics() == {"bits_per_byte"}
    assert call("--trained", "--only", "first")[0] == 0
    assert recorded_metrics() > {"bits_per_byte", "f1", "hits_1_of_20"}
    assert sorted((tmp_path / "out").glob("*/summary.json")) == trained


def test_runs_on_other_data_are_not_joined(
    tmp_path: Path, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    call("--status", "--only", "first")
    from records import with_recorded

    results = tmp_path / "records" / "quickstart"
    results.mkdir(parents=True)
    other = {"seed": 2, "data": "of another corpus", "fingerprint": "f", "commits": []}
    row = {"name": "a", "hash": "h", "runs": [other, {**other, "seed": 3, "data": "same"}]}
    (results / "other.json").write_text(json.dumps({"recipes": [row]}))
    table = table_of(tmp_path, {"a": "quickstart/transformer"}, seeds=3)
    own = {"name": "a", "hash": "h", "runs": [{**other, "seed": 1, "data": "same"}]}
    content = {
        "recipes": [own],
        "missing": ["a seed 2", "a seed 3"],
        "references": {},
        "ratings": [],
    }
    joined = with_recorded(content, {"recipes": []}, table, tmp_path / "records")
    assert [run["seed"] for run in joined["recipes"][0]["runs"]] == [1, 3]
    assert joined["missing"] == ["a seed 2"]
    assert "a seed 2: recorded on other data, left out" in caplog.text
    alone = with_recorded({**content, "recipes": []}, {"recipes": []}, table, tmp_path / "records")
    assert [run["seed"] for run in alone["recipes"][0]["runs"]] == [2], (
        "the data of the first recorded run"
    )


def recorded_row(name: str, nats: float) -> dict[str, Any]:
    """Return a recipe of a record, whose only run needs `nats` for each of 30 dialogues."""
    sums = [[nats + 0.1 * (dialogue % 3) for dialogue in range(30)], [10.0] * 30, [0.0] * 30]
    run = {
        "seed": 1,
        "data": "same",
        "fingerprint": "f",
        "dialogue_sums": sums,
        "leaked_dialogues": None,
    }
    return {"name": name, "hash": "h", "runs": [run]}


def test_records_are_decided_again(
    tmp_path: Path, call: Call, caplog: pytest.LogCaptureFixture
) -> None:
    """In bits per byte; secondary metrics keep their intervals, and records without sums all."""
    call("--status", "--only", "first")
    from records import decide_again

    names = ("quickstart/a", "quickstart/b")
    rows = [recorded_row(name, nats) for name, nats in zip(names, (7.0, 8.0), strict=True)]
    old = {"a": names[0], "b": names[1], "interval": [1.0, 2.0], "p": 0.01, "decided": True}
    differences = [{**old, "metric": "f1", "subset": subset} for subset in ("all", "clean")]
    record = {"recipes": rows, "verdict": "old", "differences": differences}
    path = tmp_path / "records" / "quickstart" / "first.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(record))
    entry = table_of(tmp_path, {name: name for name in names}, seeds=1).entry
    decide_again([entry], tmp_path / "records")
    content = json.loads(path.read_text())
    assert " a has " in content["verdict"]
    primary, secondary = content["differences"]
    assert (primary["metric"], primary["subset"]) == ("bits_per_byte", "all")
    assert primary["decided"]
    assert (secondary["interval"], secondary["p"], secondary["decided"]) == (
        [1.0, 2.0],
        None,
        False,
    )

    del rows[0]["runs"][0]["dialogue_sums"]
    path.write_text(json.dumps(record))
    decide_again([entry], tmp_path / "records")
    assert json.loads(path.read_text()) == record
    assert "without sums" in caplog.text


def test_table_that_lacks_seeds_has_a_verdict(tmp_path: Path, call: Call) -> None:
    call("--status", "--only", "first")
    from records import with_recorded

    names = ("quickstart/a", "quickstart/b")
    table = table_of(tmp_path, {name: name for name in names}, seeds=2)
    rows = [recorded_row(name, nats) for name, nats in zip(names, (7.0, 8.0), strict=True)]
    lacking = [f"{name} seed 2" for name in names]
    content = {"recipes": rows, "missing": lacking, "references": {}, "verdict": "", "ratings": []}
    recorded = with_recorded(content, {"recipes": []}, table, tmp_path / "records")
    assert recorded["missing"] == lacking
    assert " a has " in recorded["verdict"]
    assert "Each model was trained once" in recorded["verdict"]
    assert {item["metric"] for item in recorded["differences"]} == {"bits_per_byte"}


def test_perplexities_on_scored_sets_become_bits_per_byte(call: Call) -> None:
    call("--status", "--only", "first")
    from records import with_set_bits

    sets = {"S1": 32.9, "S1_tokens": 15621, "S1_bytes": 60602, "S1_responses": 1000}
    metrics = with_set_bits({"f1": 1.0, "parlai_sets": sets})
    # of Sankar et al. 2019
    assert metrics["parlai_sets"]["S1_bits_per_byte"] == pytest.approx(1.299, abs=5e-4)
    assert metrics["parlai_sets"].keys() - sets.keys() == {"S1_bits_per_byte"}
    assert with_set_bits({"f1": 1.0}) == {"f1": 1.0}


def test_training_times_name_the_machines_of_a_table(call: Call) -> None:
    call("--status", "--only", "first")
    from record_table import times

    runs = [
        {"hardware": "EPYC, 2 cores", "seconds": 7200.0},
        {"hardware": "H200, Xeon, 16 cores", "seconds": 300.0},
    ]
    assert (
        times([*runs, {"hardware": "EPYC, 2 cores", "seconds": 3600.0}], named=True)
        == "1 h 30 min (EPYC); 5 min 00 s (H200)"
    )
    assert times(runs[:1], named=False) == "2 h 00 min"


def test_moved_run_names_each_machine(
    tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("--status", "--only", "first")
    from machines import MOVED, in_sequence, machines_of, note_moves
    from record_table import times

    from dialog.report.formats.numbers import hardware
    from dialog.runs.folder import environment

    now = {**environment(), "threads": 2}
    monkeypatch.setattr("machines.environment", lambda: {**now, "threads": 4})
    folders = {name: tmp_path / name for name in ("new", "here", "moved", "finished")}
    for name, gpu in (("here", now["gpu"]), ("moved", "H200"), ("finished", "H200")):
        folders[name].mkdir()
        (folders[name] / "environment.json").write_text(
            json.dumps({**now, "gpu": gpu, "data": "d"})
        )
    summary = {"steps": 5, "seconds": 1.0, "target_tokens": 5}
    (folders["finished"] / "summary.json").write_text(json.dumps(summary))
    note_moves(folders.values(), jobs=2)
    note_moves(folders.values(), jobs=2)  # continued once more on this machine
    assert [name for name, folder in folders.items() if (folder / MOVED).exists()] == ["moved"]
    machines = [hardware(machine) for machine in machines_of(folders["moved"])]
    assert machines == [hardware({**now, "gpu": "H200"}), hardware(now)]
    processor = now["cpu"].partition(",")[0]
    run = {"hardware": in_sequence(machines), "seconds": 60.0}
    assert times([run], named=True) == f"1 min 00 s (H200, then {processor})"
