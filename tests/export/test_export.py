"""``dialog export``: what is written, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from dialog.cli import program
from dialog.errors import RunError, UserError
from dialog.export import export as export_module
from dialog.export.contract import Tokens
from dialog.export.formats import FORMATS
from dialog.export.formats.ctranslate2 import CTranslate2
from dialog.runs.load import load
from dialog.runs.run import Run


def test_a_folder_has_network_tokenizer_card_and_parity(trained: Callable[[str], Path], tmp_path: Path) -> None:
    output = tmp_path / "new" / "exported"
    command = ["export", str(trained("transformer")), "--format", "ctranslate2", "--output", str(output), "--json"]
    result = CliRunner().invoke(program, command, catch_exceptions=False)
    assert result.exit_code == 0
    printed = json.loads(result.stdout)
    assert printed == json.loads((output / "parity.json").read_text())
    assert printed["holds"]
    assert printed["format"] == "ctranslate2"
    assert {"README.md", "parity.json", "tokenizer.json", "tokenizer_config.json", "model.bin"} <= {
        file.name for file in output.iterdir()
    }


def test_an_existing_folder_is_kept(trained: Callable[[str], Path], tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    command = ["export", str(trained("transformer")), "--format", "ctranslate2", "--output", str(tmp_path)]
    with pytest.raises(UserError, match="exists; choose another --output"):
        CliRunner().invoke(program, command, catch_exceptions=False)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_an_export_that_differs_is_removed(
    trained_run: Callable[[str], Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = CTranslate2.load

    class Wrong:
        def __init__(self, folder: Path) -> None:
            self.right = load(CTranslate2(), folder)

        def log_probabilities(self, sources: Sequence[Tokens], targets: Sequence[Tokens]) -> list[list[float]]:
            return [[value - 0.01 for value in row] for row in self.right.log_probabilities(sources, targets)]

        def greedy(self, sources: Sequence[Tokens], length: int) -> list[list[int]]:
            return self.right.greedy(sources, length)

    monkeypatch.setattr(CTranslate2, "load", lambda self, folder: Wrong(folder))
    with pytest.raises(
        RunError, match=r"not written, since CTranslate2 does not compute what the run does: .*1\.0e-02"
    ):
        export_module.export(trained_run("transformer"), "ctranslate2", tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize("name", FORMATS)
def test_a_missing_package_is_named_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export_module, "find_spec", lambda package: None)
    with pytest.raises(UserError, match=rf"--format {name} needs \w+; run pip install 'dialog-seq2seq\[\w+\]'"):
        export_module.find_format(name)


def test_a_network_that_a_format_lacks_is_refused(trained_run: Callable[[str], Run], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--format onnx"):
        export_module.export(trained_run("lstm"), "ctranslate2", tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize("name", FORMATS)
def test_an_ensemble_is_refused(name: str, trained: Callable[[str], Path], tmp_path: Path) -> None:
    together = load([trained("transformer")] * 2, device="cpu")
    with pytest.raises(UserError, match="an ensemble cannot be exported; export each of its runs"):
        export_module.export(together, name, tmp_path / "exported")
