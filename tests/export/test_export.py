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
from dialog.export.card import program as program_of_card
from dialog.export.format import Tokens
from dialog.export.formats import FORMATS
from dialog.export.formats.ctranslate2 import CTranslate2
from dialog.export.formats.huggingface.generation import generation_settings
from dialog.runs.load import load
from dialog.runs.run import Run


def test_a_folder_has_network_tokenizer_card_and_parity(
    trained: Callable[[str], Path], tmp_path: Path
) -> None:
    output = tmp_path / "new" / "exported"
    command = [
        "export",
        str(trained("transformer")),
        "--format",
        "ctranslate2",
        "--output",
        str(output),
        "--json",
    ]
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
    command = [
        "export",
        str(trained("transformer")),
        "--format",
        "ctranslate2",
        "--output",
        str(tmp_path),
    ]
    with pytest.raises(UserError, match="exists; choose another --output"):
        CliRunner().invoke(program, command, catch_exceptions=False)
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_an_export_that_differs_is_removed(
    trained_run: Callable[[str], Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_folder = CTranslate2.load

    class Wrong:
        def __init__(self, folder: Path) -> None:
            self.right = open_folder(CTranslate2(), folder)

        def log_probabilities(
            self, sources: Sequence[Tokens], targets: Sequence[Tokens]
        ) -> list[list[float]]:
            return [
                [value - 0.01 for value in row]
                for row in self.right.log_probabilities(sources, targets)
            ]

        def greedy(self, sources: Sequence[Tokens], length: int) -> list[list[int]]:
            return self.right.greedy(sources, length)

    monkeypatch.setattr(CTranslate2, "load", lambda self, folder: Wrong(folder))
    with pytest.raises(
        RunError,
        match=r"not written, since CTranslate2 does not compute what the run does: .*1\.0e-02",
    ):
        export_module.export(trained_run("transformer"), "ctranslate2", tmp_path / "exported")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", FORMATS)
def test_a_missing_package_is_named_with_its_extra(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "find_spec", lambda package: None)
    with pytest.raises(
        UserError, match=rf"--format {name} needs \w+; run pip install -e '.\[\w+\]'"
    ):
        export_module.find_format(name)


def test_a_network_that_a_format_lacks_is_refused(
    trained_run: Callable[[str], Run], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="--format huggingface"):
        export_module.export(trained_run("lstm"), "ctranslate2", tmp_path / "exported")
    assert not (tmp_path / "exported").exists()


@pytest.mark.parametrize("name", FORMATS)
def test_an_ensemble_is_refused(name: str, trained: Callable[[str], Path], tmp_path: Path) -> None:
    together = load([trained("transformer")] * 2, device="cpu")
    with pytest.raises(UserError, match="an ensemble cannot be exported; export each of its runs"):
        export_module.export(together, name, tmp_path / "exported")


def test_an_altered_run_is_refused(trained: Callable[[str], Path], tmp_path: Path) -> None:
    folder, head = trained("transformer"), "decoder.layers.0.cross_attention.1"
    with pytest.raises(UserError, match="load it in float32"):
        export_module.export(
            load(folder, device="cpu", precision="bfloat16"), "ctranslate2", tmp_path / "exported"
        )
    with pytest.raises(UserError, match="load it without ablate"):
        export_module.export(
            load(folder, device="cpu", ablate=[head]), "ctranslate2", tmp_path / "exported"
        )


def test_an_interrupted_export_leaves_nothing(
    trained_run: Callable[[str], Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: CTranslate2, folder: Path) -> None:
        assert {file.name for file in folder.iterdir()} >= {"model.bin", "tokenizer.json"}
        assert not (tmp_path / "exported").exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(CTranslate2, "load", interrupted)
    with pytest.raises(KeyboardInterrupt):
        export_module.export(trained_run("transformer"), "ctranslate2", tmp_path / "exported")
    assert not [*tmp_path.iterdir()]


def test_a_full_disk_is_named_with_the_folder(
    trained_run: Callable[[str], Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: CTranslate2, run: Run, folder: Path) -> None:
        raise RuntimeError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(CTranslate2, "write", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        export_module.export(trained_run("transformer"), "ctranslate2", tmp_path / "exported")
    assert caught.value.filename == str(tmp_path / "exported")


@pytest.mark.parametrize("name", FORMATS)
def test_an_override_selects_the_search(name: str, trained: Callable[[str], Path]) -> None:
    """A constraint inside the search counts in every format."""
    overrides = ["generation.search={name: beam, width: 3, max_length: 7}"]
    chosen, run = (
        export_module.find_format(name),
        load(trained("transformer"), overrides=overrides, device="cpu"),
    )
    code = program_of_card(run, chosen)
    if name == "huggingface":
        values = generation_settings(run.recipe.generation).values
        assert (values["num_beams"], values["max_new_tokens"]) == (3, 7)
    else:
        assert "7" in code
        assert "60" not in code
    assert ("beam_size=3" in code) == (name == "ctranslate2")
    assert ("# unlike the run: generation.search beam" in code) == (name == "onnx")
