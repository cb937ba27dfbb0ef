"""Output of the verbs that list, show and prepare."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from program import TINY, TRANSFORMER, Done, files, series

pytestmark = pytest.mark.usefixtures("here")


def test_light_verbs_load_nothing_heavy() -> None:
    from dialog.config.compose import compose
    from dialog.config.schema import to_dict

    listing, rows, shown, as_json = series([
        ["recipes"], ["recipes", "--json"], ["show", TRANSFORMER, "seed=5"],
        ["show", TRANSFORMER, "--json", "optimizer.lr=1e-2"],
    ])  # fmt: skip
    for done in (listing, rows, shown, as_json):
        assert (done.code, done.err, done.loaded) == (0, "", [])
    assert f"\n{TRANSFORMER} " in listing.out
    assert {row["name"]: row["decoder"] for row in json.loads(rows.out)}[
        TRANSFORMER
    ] == "transformer"
    lines = dict(line.split("  # ") for line in shown.out.rstrip("\n").split("\n"))
    places = {
        key.split(": ")[0]: (key.split(": ")[1].strip(), place) for key, place in lines.items()
    }
    assert places["seed"] == ("5", "command line")
    assert places["trainer.num_nodes"][1] == "default"
    assert re.search(r"configs/data/builtin.yaml:\d+$", places["data.corpus.name"][1])
    assert "recipes/quickstart/transformer.yaml:" in places["trainer.max_epochs"][1]
    assert json.loads(as_json.out) == to_dict(compose(TRANSFORMER, ["optimizer.lr=1e-2"]).recipe)


def test_prepare_needs_no_torch_and_works_once(here: Path) -> None:
    (here / "fine").mkdir()
    for split in ("train", "validation", "test"):
        (here / "fine" / f"{split}.jsonl").write_text('{"turns": ["Hi", "Hello"]}\n' * 3)
    command = ["prepare", TRANSFORMER, "data.corpus={name: jsonl}", "data.path=fine", "--json"]
    (done,) = series([command])
    assert done.code == 0, done.err
    assert "torch" not in done.loaded
    manifest = json.loads(done.out)
    assert manifest["splits"]["train"]["examples"] == 3
    assert all(
        plan["number"] > 0 and 0 <= plan["padding"] < 1 for plan in manifest["batches"].values()
    )
    before = files(Path("cache"))
    (again,) = series([command])
    assert json.loads(again.out) == manifest
    assert files(Path("cache")) == before


def test_parts_of_one_family_load_only_what_it_needs() -> None:
    for done in series([["parts", "corpora"], ["parts", "filters"]]):
        assert (done.code, done.err) == (0, "")
        assert "torch" not in done.loaded


def test_parts_lists_arguments_and_defaults(call: Callable[..., Done]) -> None:
    done = call("parts", "--json")
    assert (done.code, done.err) == (0, "")
    found = json.loads(done.out)
    assert found["attentions"]["additive"] == {"size": "required"}
    assert found["corpora"]["taskmaster"] == {"files": None}
    assert {"encoders", "decoders", "searches", "metrics", "loggers", "schedules"} <= set(found)
    assert found["losses"]["r_drop"] == {"loss": {"name": "cross_entropy"}, "weight": 0.5}
    assert found["teacher_forcings"]["linear"] == {"steps": "required", "start": 1.0, "end": 0.0}
    assert found["objectives"]["denoising"]["path"] is None
    given = {"path", "tokenizer", "padding", "vocabulary", "tied", "end", "kwargs"}
    assert {
        key
        for family in ("corpora", "heads", "attentions", "losses", "searches", "objectives")
        for part in found[family].values()
        for key in part
    } & given == {"path"}
    shown = call("parts", "attentions").out
    assert "  additive(size)\n" in shown
    assert "encoders" not in shown
    assert json.loads(call("parts", "corpora", "csv", "--json").out) == {
        "corpora": {"csv": found["corpora"]["csv"]}
    }
    described = call("parts", "encoders", "lstm").out
    assert described.startswith(f"encoders\n  lstm({', '.join(found['encoders']['lstm'])[:4]}")
    assert "``uniform``" in described  # of its settings
    assert "transformer(" not in described


def test_show_prints_examples_and_modules(call: Callable[..., Done]) -> None:
    done = call("show", TRANSFORMER, *TINY, "--examples", "2", "--model")
    assert done.code == 0
    lines = done.out.rstrip("\n").split("\n")
    assert [line.split(":")[0] for line in lines[-4:]] == [
        "0 source",
        "0 target",
        "1 source",
        "1 target",
    ]
    assert all(line.endswith("</s>") for line in lines[-4:])
    assert "0 target: <s> " in done.out
    modules = [line for line in lines if line.startswith("  encoder (TransformerEncoder)")]
    assert len(modules) == 1


def test_show_counts_parameters_without_the_corpus(call: Callable[..., Done]) -> None:
    done = call("show", "dailydialog/hred", "--model")
    assert (done.code, done.err) == (0, "")
    vocabulary, parameters, forward = done.out.rstrip("\n").split("\n")[-3:]
    assert vocabulary.startswith(
        "vocabulary: 8,000 tokens (from the recipe; data.corpus: dailydialog is missing"
    )
    assert (
        parameters == "parameters: 9,670,320 in all, 7,622,320 without embeddings and output layer"
    )
    assert re.fullmatch(
        r"forward: [\d,]+ FLOPs per target token \(64 target and 96 source tokens, .*\)", forward
    )


def test_show_reports_a_wrong_corpus(call: Callable[..., Done]) -> None:
    done = call("show", "dailydialog/hred", "data.corpus.name=dailydialogg", "--model")
    assert (done.code, done.err) == (
        2,
        "dialog: data.corpus: unknown corpus 'dailydialogg'; did you mean 'dailydialog'?\n",
    )
    assert call("show", "dailydialog/hred", "data.tokenizer.words=3", "--model").code == 2
    done = call("show", "dailydialog/hred", "--json", "--model")
    assert (done.code, done.err) == (2, "dialog: --json: not with --model or --examples\n")


def test_show_escapes_control_characters(call: Callable[..., Done]) -> None:
    done = call("show", TRANSFORMER, "about.summary='a\u202eb'")
    assert done.code == 0
    assert "a\\u202eb" in done.out
    assert "\u202e" not in done.out
