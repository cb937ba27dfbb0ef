"""Contenders of a command line: variations, groups of runs, files of responses."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialog.comparison.grid.contenders import (
    group_runs,
    parse_variation,
    read_contenders,
    split_folder,
)
from dialog.comparison.grid.folder import Contender, Grid, contender_hash
from dialog.comparison.grid.plan import merged
from dialog.comparison.grid.responses import match_responses
from dialog.comparison.grid.test_set import examples_of, examples_of_file
from dialog.config.compose import compose
from dialog.config.trust import NO_TRUST
from dialog.errors import UserError
from dialog.runs.folder import LISTED
from dialog.training.checkpoints.manifest import list_files

LSTM = "quickstart/lstm_bahdanau"


def named(contenders: list[Contender]) -> dict[str, Any]:
    return {contender.name: contender.recipe for contender in contenders}


# ------------------------------------------------------------------ variations


def test_a_plain_value_of_a_component_names_a_part() -> None:
    varied = named(read_contenders([LSTM], [], ["model.decoder.attention=additive,dot,none"]))
    attentions = {name: recipe["model"]["decoder"]["attention"] for name, recipe in varied.items()}
    assert attentions == {
        f"{LSTM}[attention=additive]": {"name": "additive", "size": 168},
        f"{LSTM}[attention=dot]": {"name": "dot"},
        f"{LSTM}[attention=none]": {"name": "none"},
    }


def test_settings_that_a_variation_drops_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    read_contenders([LSTM], [], ["model=small/lstm_bahdanau,small/transformer"])
    (record,) = caplog.records
    assert record.getMessage().count("model.dropout=") == 1


def test_variations_are_combined_and_named_apart() -> None:
    names = [
        *named(read_contenders([LSTM], [], ["model.encoder.size=8,16", "model.decoder.size=8"]))
    ]
    assert names == [
        f"{LSTM}[encoder.size=8, decoder.size=8]",
        f"{LSTM}[encoder.size=16, decoder.size=8]",
    ]


def test_recipes_of_two_corpora_on_the_same_data() -> None:
    recipes = ["dailydialog/transformer", "taskmaster/transformer", "dailydialog/lstm_bahdanau"]
    own = ["data.corpus.name=jsonl", "data.path=chats.jsonl"]
    names = [*recipes[:2], "chats/lstm_bahdanau"]
    assert [contender.name for contender in read_contenders(recipes, own)] == names
    varied = [f"{name}[dropout=0.1]" for name in names]
    assert [
        contender.name for contender in read_contenders(recipes, own, ["model.dropout=0.1"])
    ] == varied


def test_values_are_split_outside_of_brackets_and_names_are_safe() -> None:
    text = "model.decoder.attention={name: additive, size: 8},dot"
    assert parse_variation(text) == (
        "model.decoder.attention",
        ["{name: additive, size: 8}", "dot"],
    )
    names = [*named(read_contenders([LSTM], [], [text, "data.path=/a/b"]))]
    assert names[0] == f"{LSTM}[attention=additive size=8, path=_a_b]"


@pytest.mark.parametrize(
    ("variations", "message"),
    [
        (["model.dropout"], "give KEY=A,B"),
        (["model.dropout=0.1,"], "give KEY=A,B"),
        (["model.dropout=0.1,0.1"], "a value is listed twice"),
        (["model.dropout=0.1", "model.dropout=0.2"], "listed twice; give its values in one list"),
        (["model.dropot=0.1"], "model.dropot: unknown key; did you mean 'dropout'"),
    ],
)
def test_invalid_variations(variations: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_contenders([LSTM], [], variations)


# ------------------------------------------------------------------ runs


def test_hash_ignores_seed_machine_and_logging_only() -> None:
    def hashed(*overrides: str) -> str:
        return contender_hash(compose(LSTM, overrides).recipe)

    ignored = [
        "seed=7",
        "trainer.accelerator=gpu",
        "trainer.enable_progress_bar=false",
        "logger=wandb",
        "data.path=/x",
    ]
    assert hashed() == hashed(*ignored)
    for override in (
        "model.dropout=0.3",
        "trainer.max_steps=9",
        "data.batch_tokens=99",
        "generation.max_length=7",
    ):
        assert hashed() != hashed(override), override


@pytest.fixture
def seeds(trained: Callable[[str], Path], tmp_path: Path) -> Callable[[str, int], Path]:
    """``seeds(name, seed)``: a copy of a trained run that records another seed."""

    def copy(name: str, seed: int) -> Path:
        folder = Path(shutil.copytree(trained("lstm"), tmp_path / "runs" / name))
        recipe = (folder / "recipe.yaml").read_text(encoding="utf-8")
        (folder / "recipe.yaml").write_text(
            recipe.replace("\nseed: 1\n", f"\nseed: {seed}\n"), encoding="utf-8"
        )
        list_files(folder, LISTED)
        return folder

    return copy


def test_runs_of_one_recipe_are_one_contender(
    seeds: Callable[..., Path], trained: Callable[[str], Path]
) -> None:
    one, two = seeds("lstm/a", 1), seeds("lstm/b", 2)
    first, second = read_contenders([str(one), str(trained("transformer")), str(two)], [])
    assert (first.name, first.folders) == ("lstm", {1: str(one), 2: str(two)})
    assert second.folders == {1: str(trained("transformer"))}
    with pytest.raises(UserError, match="runs of one recipe with the same seed"):
        group_runs([one, seeds("lstm/c", 1)], trust=NO_TRUST)


def test_a_run_that_is_added_is_a_seed_of_its_contender(
    seeds: Callable[..., Path], tmp_path: Path
) -> None:
    one, two, again = (
        read_contenders([str(seeds(*name))], [])
        for name in (("lstm-1", 1), ("lstm-2", 2), ("again", 1))
    )
    grid = merged(Grid(tmp_path, (), ()), one, [1], ())
    (contender,) = merged(grid, two, [1], ()).contenders
    assert (contender.name, [*contender.folders]) == ("lstm", [1, 2])
    with pytest.raises(UserError, match="has a run of the same recipe and seed 1"):
        merged(grid, again, [1], ())
    shutil.rmtree(one[0].folders[1])
    (contender,) = merged(grid, again, [1], ()).contenders
    assert contender.folders == again[0].folders, "the folder was moved"


@pytest.mark.parametrize(
    ("file", "before", "after", "name"),
    [
        ("environment.json", '"data": "', '"data": "other', "data"),
        ("environment.json", '"tokenizer": "', '"tokenizer": "other', "tokenizer"),
        ("recipe.yaml", "devices: 1", "devices: 2", "trainer.devices"),
    ],
)
def test_seeds_on_other_data_or_devices(
    seeds: Callable[..., Path], file: str, before: str, after: str, name: str
) -> None:
    one, two = seeds("lstm/a", 1), seeds("lstm/b", 2)
    text = (two / file).read_text(encoding="utf-8")
    assert before in text
    (two / file).write_text(text.replace(before, after), encoding="utf-8")
    list_files(two, LISTED)
    first, second = (group_runs([run], trust=NO_TRUST) for run in (one, two))
    grid = merged(Grid(two.parent, (), ()), first, [1], ())
    message = (
        f"lstm/b: {name} differs from .*lstm/a, so they are not seeds of one model; compare them"
        " apart"
    )
    with pytest.raises(UserError, match=message):
        group_runs([one, two], trust=NO_TRUST)
    with pytest.raises(UserError, match=message):
        merged(grid, second, [1], ())


def test_settings_of_an_added_recipe_are_its_own(tmp_path: Path) -> None:
    """Those of the first command are settings of the comparison, and apply to recipes that are
    added.
    """
    recipes = [
        read_contenders([name], [])
        for name in (LSTM, "quickstart/transformer", "reverse/lstm_bahdanau")
    ]
    grid = merged(Grid(tmp_path, (), ()), [*recipes[0], *recipes[1]], [1], ())
    assert merged(grid, recipes[2], [1], ["model.dropout=0.3"]).overrides == ()
    grid = merged(Grid(tmp_path, (), ()), [*recipes[0], *recipes[1]], [1], ["trainer.max_steps=9"])
    assert merged(grid, recipes[2], [1], ["trainer.max_steps=9"]).overrides == (
        "trainer.max_steps=9",
    )


def test_second_comparison_folder_is_rejected(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "grid.json").write_text("{}", encoding="utf-8")
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    assert split_folder([LSTM, one]) == (tmp_path / "one", [LSTM])
    assert split_folder([LSTM]) == (None, [LSTM])
    with pytest.raises(UserError, match="two: a second comparison folder"):
        split_folder([one, two])


# ------------------------------------------------------------------ responses


@pytest.fixture(scope="module")
def expected(tiny: Callable[..., Any]) -> list[Any]:
    """The test set of the tiny corpus."""
    return list(examples_of(tiny("lstm").recipe, "test"))


def test_files_of_one_name_are_named_by_their_folders(tmp_path: Path) -> None:
    paths = [tmp_path / run / "evaluation" / "test" / "responses.jsonl" for run in ("one", "two")]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.write_text(f"{path}\n", encoding="utf-8")
    named = read_contenders([str(path) for path in paths], [])
    assert [contender.name for contender in named] == ["one-evaluation-test", "two-evaluation-test"]
    (alone,) = read_contenders([str(paths[0])], [])
    assert alone.name == "test"


def write(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "other.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_responses_are_matched_by_id_or_by_text(expected: list[Any], tmp_path: Path) -> None:
    rows = [
        {**row, "response": f"r{place}", "nll": float(place)} for place, row in enumerate(expected)
    ]
    by_id = [{key: row[key] for key in ("id", "response", "nll")} for row in rows]
    assert match_responses(write(tmp_path, by_id[::-1]), expected) == rows
    by_text = [
        {key: row[key] for key in ("context", "reference", "response", "nll")} for row in rows
    ]
    foreign = [{**row, "id": f"mine-{place}"} for place, row in enumerate(by_text)]
    assert match_responses(write(tmp_path, by_text), expected) == rows
    assert match_responses(write(tmp_path, foreign), expected) == rows
    for row in by_id:
        row["nll"] = None
    assert "nll" not in match_responses(write(tmp_path, by_id), expected)[0]


def test_lines_without_ids_are_matched_by_their_number(expected: list[Any], tmp_path: Path) -> None:
    answers = [f"r{place}" for place in range(len(expected))]
    rows = [{**row, "response": text} for row, text in zip(expected, answers, strict=True)]
    assert match_responses(write(tmp_path, [{"response": text} for text in answers]), expected) == (
        rows
    )
    (tmp_path / "hyp.txt").write_text("\n".join(answers), encoding="utf-8")
    assert match_responses(tmp_path / "hyp.txt", expected) == rows
    counted = [{**row, "id": str(number)} for number, row in enumerate(expected)]
    by_number = [{"id": number, "response": text} for number, text in enumerate(answers)]
    matched = match_responses(write(tmp_path, by_number[::-1]), counted)
    assert [row["response"] for row in matched] == answers


def test_examples_of_equal_text_are_matched_in_their_order(tmp_path: Path) -> None:
    twins = [
        {"id": name, "dialogue_id": name, "context": ["Hi"], "reference": "Ho"} for name in "ab"
    ]
    rows = [
        {"context": ["Hi"], "reference": "Ho", "response": response} for response in ("one", "two")
    ]
    assert [row["response"] for row in match_responses(write(tmp_path, rows), twins)] == [
        "one",
        "two",
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:-1], "no response to 1 of"),
        (lambda rows: [*rows, rows[0]], r"other.jsonl:\d+: id '.*' is listed twice"),
        (
            lambda rows: [*rows, {**rows[0], "id": "x"}],
            r"other.jsonl:\d+: id 'x' is not in the test set",
        ),
        (
            lambda rows: [{**rows[0], "reference": "No ."}, *rows[1:]],
            r"other.jsonl:1: the reference of .* has \"No \.\" where",
        ),
        (
            lambda rows: [{**rows[0], "reference": f"{rows[0]['reference']} x"}, *rows[1:]],
            r" x\" where .* has \"[^\"]*[^x]\";",
        ),
        (
            lambda rows: [*({**row, "nll": 1.0} for row in rows[:-1]), rows[-1]],
            r"other.jsonl:\d+: no nll, which other",
        ),
        (
            lambda rows: [*rows[:-1], {**rows[-1], "reference_unknown_bytes": 2}],
            "other.jsonl:1: no reference_unknown_by",
        ),
        (
            lambda rows: [{**row, "nll": -3.0} for row in rows],
            r"other.jsonl:1: nll is -3.0; give a number of at least 0",
        ),
        (
            lambda rows: [{**row, "nll": "1.5"} for row in rows],
            "other.jsonl:1: nll is .*; give a number of at least 0",
        ),
        (
            lambda rows: [{**rows[0], "response": 3}, *rows[1:]],
            r"other.jsonl:1: response is 3; give a string",
        ),
        (lambda rows: [{"response": "x"}, *rows[1:]], "other.jsonl:1: no id"),
        (
            lambda rows: [{"response": "x", "context": ["Hi"]} for _ in rows],
            "other.jsonl:1: matches no example of the test set",
        ),
        (
            lambda rows: [{"response": "x"}],
            "other.jsonl: has 1 lines without ids, and the test set has",
        ),
        (
            lambda rows: [{**rows[0], "response": "\ud800"}, *rows[1:]],
            "other.jsonl:1: response has a lone surrogate",
        ),
        (
            lambda rows: [{**rows[0], "response": "x" * 10**7}, *rows[1:]],
            "other.jsonl:1: response has 10,000,000 characters",
        ),
        (
            lambda rows: [{"id": "x"}],
            "other.jsonl:1: no response; give each line the response of the system",
        ),
    ],
)
def test_files_that_do_not_fit(
    expected: list[Any], tmp_path: Path, change: Callable[[Any], list[dict[str, Any]]], message: str
) -> None:
    rows = [{**row, "response": "r"} for row in expected]
    with pytest.raises(UserError, match=message):
        match_responses(write(tmp_path, change(rows)), expected)


def test_a_file_that_is_the_test_set_needs_its_fields(tmp_path: Path) -> None:
    file = write(tmp_path, [{"id": "d#1", "response": "x"}])
    with pytest.raises(
        UserError,
        match=r"other.jsonl:1: no context; each line needs id, context, reference, response",
    ):
        examples_of_file(file)
