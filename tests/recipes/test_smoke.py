"""Every shipped recipe runs end to end through the command line, shortened by its ``smoke:``
overrides.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from dialog.cli import program
from dialog.config.compose import compose, shipped_recipes

CORPORA = Path(__file__).parents[1] / "data" / "corpora" / "samples"
CORPORA_OF_FILES = ("crosswoz", "dailydialog", "multi30k", "selfdialogue", "taskmaster")
"""Folders of recipes; those of other folders generate their dialogues."""
FROM_FILES = [name for name in shipped_recipes() if name.partition("/")[0] in CORPORA_OF_FILES]
DAILYDIALOG = [name for name in FROM_FILES if name.startswith("dailydialog/")]
BUILTIN = [name for name in shipped_recipes() if name not in FROM_FILES]
NOW = {
    "quickstart/lstm_bahdanau",
    "quickstart/transformer",
    "quickstart/gated_delta",
    "dailydialog/hred",
    "dailydialog/decoder_only",
}
"""Recipes that `make test` trains; all others have the same parts, and are endurance tests."""
DIALOGUES = [
    [f"Hello {n} , a tea ?", "Yes , please !", f"Here you are , number {n} .", "Thanks ."]
    for n in range(60)
]


def some_now(names: list[str]) -> list[Any]:
    marks = pytest.mark.endurance
    return [name if name in NOW else pytest.param(name, marks=marks) for name in names]


def test_there_are_recipes_that_need_no_download() -> None:
    assert {"quickstart/lstm_bahdanau", "quickstart/transformer"} <= set(BUILTIN)


@pytest.mark.parametrize("name", some_now(BUILTIN))
def test_smoke(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    smoke = compose(name).recipe.smoke
    assert smoke, f"{name} has no smoke overrides"
    program.main(["train", name, *smoke], standalone_mode=False)
    folder = Path(capsys.readouterr().out.strip())
    assert folder.parent == Path("runs") / name
    for each in (
        "recipe.yaml",
        "environment.json",
        "tokenizer.json",
        "model.safetensors",
        "metrics.jsonl",
    ):
        assert (folder / each).is_file(), each

    (tmp_path / "in.jsonl").write_text(
        json.dumps({"context": ["Hello .", "How are you ?"]}) + "\n", encoding="utf-8"
    )
    program.main(["respond", str(folder), "--input", "in.jsonl"], standalone_mode=False)
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["context"] == ["Hello .", "How are you ?"]

    limits = ["generation.max_length=3", "data.corpus.size=20"]
    program.main(["evaluate", str(folder), *limits, "--json"], standalone_mode=False)
    metrics = json.loads(capsys.readouterr().out)
    assert 0 < metrics["bits_per_byte"] < 20
    (evaluation,) = (folder / "evaluation").iterdir()  # other settings than the recipe's
    assert re.fullmatch(r"test-[0-9a-f]+", evaluation.name)
    assert (evaluation / "responses.jsonl").is_file()


def crosswoz(folder: Path) -> None:
    dialogues = {
        str(n): {
            "messages": [
                {"role": ("usr", "sys")[turn % 2], "content": text}
                for turn, text in enumerate(texts)
            ]
        }
        for n, texts in enumerate([f"你好,第{n}家?", "好的。", f"谢谢{n}!"] for n in range(60))
    }
    for part in ("val", "test"):
        (folder / f"{part}.json").write_text(
            json.dumps(dialogues, ensure_ascii=False), encoding="utf-8"
        )


def multi30k(folder: Path) -> None:
    for part in ("train", "val", "test_2016_flickr"):
        (folder / f"{part}.de").write_text(
            "Ein Hund läuft .\nZwei Männer lachen .\n", encoding="utf-8"
        )
        (folder / f"{part}.en").write_text("A dog runs .\nTwo men laugh .\n", encoding="utf-8")


def selfdialogue(folder: Path) -> None:
    columns = [f"Answer.sentence{turn}" for turn in range(1, 5)]
    with (folder / "tea.csv").open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, quoting=csv.QUOTE_ALL)
        table.writerow(["AssignmentId", "worker", *columns])
        table.writerows([f"a{n}", f"w{n}", *texts] for n, texts in enumerate(DIALOGUES))


def taskmaster(folder: Path) -> None:
    speakers = ("USER", "ASSISTANT")
    dialogues = [
        {
            "conversation_id": f"dlg-{n}",
            "utterances": [
                {"speaker": speakers[turn % 2], "text": text} for turn, text in enumerate(texts)
            ],
        }
        for n, texts in enumerate(DIALOGUES)
    ]
    (folder / "self-dialogs.json").write_text(json.dumps(dialogues), encoding="utf-8")


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of tiny corpora in their published formats."""
    root = tmp_path_factory.mktemp("corpora")
    (root / "dailydialog").symlink_to(CORPORA / "dailydialog")
    for write in (crosswoz, multi30k, selfdialogue, taskmaster):
        (root / write.__name__).mkdir()
        write(root / write.__name__)
    return root


@pytest.mark.parametrize("name", some_now(FROM_FILES))
def test_smoke_on_files(
    name: str,
    corpora: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The shipped network for one step, on dialogues in the format of its corpus."""
    monkeypatch.setenv("DIALOG_DATA", str(corpora))
    monkeypatch.setenv("WANDB_MODE", "offline")
    composed = compose(name)
    assert composed.recipe.smoke, f"{name} has no smoke overrides"
    small = [*composed.recipe.smoke, "data.tokenizer.vocabulary=400", "data.batch_tokens=256"]
    small += ["trainer.max_steps=1", "trainer.log_every_n_steps=1", "preflight=false"]
    program.main(["train", name, *small, "--output", str(tmp_path / "run")], standalone_mode=False)
    capsys.readouterr()
    maps = list((tmp_path / "run" / "attention").glob("step-1/*.json"))
    assert maps
    recorded = json.loads(maps[0].read_text(encoding="utf-8"))
    decoder = composed.recipe.model.decoder["name"]
    without_attention = "no_attention" in name or decoder == "lstm_plain"
    assert bool(recorded["maps"]) is not without_attention
    (tmp_path / "in.jsonl").write_text(
        json.dumps({"context": ["Hello .", "How are you ?"]}) + "\n", encoding="utf-8"
    )
    search = "generation.max_length=3"
    program.main(
        ["respond", str(tmp_path / "run"), search, "--input", str(tmp_path / "in.jsonl")],
        standalone_mode=False,
    )
    assert json.loads(capsys.readouterr().out)["context"] == ["Hello .", "How are you ?"]


@pytest.mark.parametrize(
    "name",
    [name for name in DAILYDIALOG if "/sankar2019/" not in name and name != "dailydialog/small"],
)
def test_parameters_are_matched(name: str) -> None:
    """The stated numbers, which tests/config/test_shipped.py compares with the networks."""
    assert compose(name).recipe.about.parameters == pytest.approx(10e6, rel=0.06)


def test_compare_dailydialog_recipes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two shipped recipes to a report, on dialogues in the format of the official archive."""
    monkeypatch.setenv("DIALOG_DATA", str(CORPORA))
    monkeypatch.setenv("WANDB_MODE", "offline")
    names = ["dailydialog/lstm_bahdanau", "dailydialog/transformer"]
    batches = ["data.tokenizer.vocabulary=400", "data.batch_tokens=128", "generation.max_length=3"]
    short = [*batches, "trainer.max_steps=1", "trainer.log_every_n_steps=1"]
    assert all(compose(name).recipe.smoke for name in names)
    program.main(
        ["compare", *names, *short, "--output", str(tmp_path / "out")], standalone_mode=False
    )
    results = json.loads((tmp_path / "out" / "results.json").read_text(encoding="utf-8"))
    assert [model["name"] for model in results["models"]] == names
    assert (tmp_path / "out" / "report.html").is_file()
