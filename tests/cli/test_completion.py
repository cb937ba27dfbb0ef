"""Shell completion of verbs, recipes, runs and keys, without heavy imports."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import CompletionItem, ShellComplete
from program import HEAVY, TRANSFORMER, process

from dialog.cli import COMPLETION, VERBS, program
from dialog.cli.completion import SettingsBashComplete
from dialog.config.compose import compose, shipped_recipes

PROGRAM = f"""
import sys
from dialog.cli import main
sys.argv = ["dialog-seq2seq"]
try:
    main()
finally:
    print([name for name in {HEAVY} if name in sys.modules], file=sys.stderr)
"""


def completed(*arguments: str) -> list[str]:
    *before, incomplete = arguments
    items = ShellComplete(program, {}, "dialog-seq2seq", COMPLETION).get_completions(
        before, incomplete
    )
    return [item.value for item in items if item.type == "plain"]


def test_verbs_are_completed() -> None:
    assert completed("") == list(VERBS)
    assert completed("tune") == ["tune", "tune-generation"]
    assert completed("no-such-verb", "") == list(VERBS)  # no error in the middle of a line


@pytest.mark.parametrize(
    "verb",
    [
        "train",
        "show",
        "prepare",
        "inspect",
        "tune",
        "benchmark",
        "compare",
        "sweep",
        "recipes copy",
    ],
)
def test_recipes_are_completed(verb: str) -> None:
    assert completed(*verb.split(), "") == list(shipped_recipes())
    assert completed(*verb.split(), "quickstart/t") == [TRANSFORMER]


@pytest.mark.parametrize(
    "verb", ["train", "show", "prepare", "inspect", "tune", "benchmark", "compare", "sweep"]
)
def test_keys_of_a_recipe_are_completed(verb: str) -> None:
    # of its component
    assert completed(verb, TRANSFORMER, "model.encoder.h") == ["model.encoder.heads="]
    assert completed(verb, TRANSFORMER, "trainer.max_steps=3", "data.batch_") == [
        "data.batch_tokens=",
        "data.batch_examples=",
    ]
    assert completed(verb, "no/such/recipe", "trainer.max_s") == ["trainer.max_steps="]


@pytest.mark.parametrize(
    "verb", ["evaluate", "respond", "chat", "serve", "export", "attention", "tune-generation"]
)
def test_keys_of_a_run_are_completed(verb: str, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(
        compose("quickstart/lstm_bahdanau", ["generation.search={name: beam, width: 3}"]).yaml(),
        encoding="utf-8",
    )
    assert completed(verb, str(tmp_path), "generation.search.w") == ["generation.search.width="]


def test_no_space_follows_a_key() -> None:
    bash = SettingsBashComplete(program, {}, "dialog-seq2seq", COMPLETION)
    assert "nospace" in bash.source_template
    lines = [bash.format_completion(item) for item in map(CompletionItem, ("train", "seed="))]
    assert lines == ["plain,train ", "plain,seed="]


def test_completion_loads_nothing_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        (COMPLETION, "bash_complete"),
        ("COMP_WORDS", f"x train {TRANSFORMER} see"),
        ("COMP_CWORD", "3"),
    ):
        monkeypatch.setenv(name, value)
    done = process("-c", PROGRAM, start=())
    assert (done.code, done.out, done.err) == (0, "plain,seed=\n", "[]\n")
