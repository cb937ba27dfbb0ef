"""Every recipe runs from end to end by the command line, cut short by its own ``smoke:``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dialog.cli import program
from dialog.recipe import compose, shipped

CORPORA = Path(__file__).parents[1] / "corpora"
BUILTIN = [name for name in shipped() if compose(name).recipe.data.corpus["name"] in ("builtin", "synthetic")]


def test_there_are_recipes_that_need_no_download() -> None:
    assert {"quickstart/lstm_bahdanau", "quickstart/transformer"} <= set(BUILTIN)


@pytest.mark.parametrize("name", BUILTIN)
def test_smoke(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    smoke = compose(name).recipe.smoke
    assert smoke, f"{name} says nowhere how to try it"
    program.main(["train", name, *smoke], standalone_mode=False)
    folder = Path(capsys.readouterr().out.strip())
    assert folder.parent == Path("runs") / name
    for each in ("recipe.yaml", "environment.json", "tokenizer.json", "model.safetensors", "metrics.jsonl"):
        assert (folder / each).is_file(), each

    (tmp_path / "in.jsonl").write_text(json.dumps({"context": ["Hello .", "How are you ?"]}) + "\n", encoding="utf-8")
    program.main(["respond", str(folder), "--input", "in.jsonl"], standalone_mode=False)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["context"] == ["Hello .", "How are you ?"]

    limits = ["generation.max_length=3", "data.corpus.size=20"]
    program.main(["evaluate", str(folder), *limits, "--json"], standalone_mode=False)
    metrics = json.loads(capsys.readouterr().out)
    assert 0 < metrics["bits_per_byte"] < 20
    assert (folder / "evaluation" / "test" / "responses.jsonl").is_file()


def test_dailydialog_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both recipes as they ship, to a report; on dialogues of ours in the official archive's form."""
    monkeypatch.setenv("DIALOG_DATA", str(CORPORA))
    monkeypatch.setenv("WANDB_MODE", "offline")
    names = ["dailydialog/lstm_bahdanau", "dailydialog/transformer"]
    batches = ["data.tokenizer.vocabulary=400", "data.batch_tokens=128", "generation.max_length=3"]
    short = [*batches, "trainer.max_steps=1", "trainer.log_every_n_steps=1"]
    assert all(compose(name).recipe.smoke for name in names)
    program.main(["compare", *names, *short, "--output", str(tmp_path / "out")], standalone_mode=False)
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert [model["name"] for model in results["models"]] == names
    assert (tmp_path / "out" / "report.html").is_file()
