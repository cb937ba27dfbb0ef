"""Parity contract: equal, different, and unknown settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import dialog
from dialog.analysis.flops import training_flops
from dialog.comparison.parity import EvaluatedSystem, broken, parity, validation_interval
from dialog.comparison.results.systems import flops_per_target_token
from dialog.config.compose import compose
from dialog.data.dialogue import Example, Turn
from dialog.report.formats.results import CurvePoint, ModelResults, RunResults

LSTM, TRANSFORMER = "quickstart/lstm_bahdanau", "quickstart/transformer"
ENVIRONMENT = {
    "data": "d" * 64,
    "tokenizer": "t" * 64,
    "cpu": "x",
    "cores": 2,
    "dialog": "1.0",
    "torch": "2.13",
}

TEST_SET = {"fingerprint": "f" * 64, "examples": 9}


def system(
    recipe: str, *overrides: str, rest: int = 1000, seeds: Sequence[int] = (1, 2), **model: object
) -> EvaluatedSystem:
    curve = tuple(CurvePoint(1, 0, 1, 1.0, None, value) for value in (2.0, None, 1.0))
    runs = tuple(
        RunResults(seed, steps=2300, seconds=60.0, target_tokens=50_000, curve=curve)
        for seed in seeds
    )
    sizes = {"total": rest + 500, "embeddings": 500, "rest": rest}
    options = {"parameters": sizes, "flops_per_target_token": 4.5e6} | model
    entry = ModelResults(recipe, "recipe", runs=runs, **options)
    return EvaluatedSystem(compose(recipe, overrides).recipe, ENVIRONMENT, entry, TEST_SET)


def differing(*systems: EvaluatedSystem) -> dict[str, bool]:
    """The settings that differ, and whether they must not."""
    return {row.what: row.must for row in parity(systems) if not row.equal}


def test_shipped_recipes_are_compared_fairly() -> None:
    rows = parity([system(LSTM), system(TRANSFORMER, rest=1100)])
    assert broken(rows) == []
    values = {row.what: row.values for row in rows}
    assert values["training budget"] == ("2300 steps of 1024 tokens",) * 2
    assert values["validation interval"] == ("every 460 batches",) * 2
    assert values["selection"] == ("best validation/loss",) * 2
    assert values["early stopping"] == ("after 5 validations without improvement",) * 2
    assert values["parameters without embeddings (within 10 %)"] == (1000, 1100)
    assert values["FLOPs per target token"] == (4.5e6,) * 2
    assert values["validations"] == (2, 2)
    assert values["seeds"] == ("1, 2",) * 2
    assert {
        "hardware",
        "software",
        "target tokens seen (within 10 %)",
        "training seconds",
        "tuning trials",
    } <= values.keys()


@pytest.mark.parametrize(
    ("interval", "epochs", "text"),
    [
        ("null", "1", "every 1 epochs"),
        ("1.0", "1", "every 1 epochs"),
        ("1.0", "2", "every 2 epochs"),
        ("0.25", "1", "every 0.25 epochs"),
        ("0.25", "2", "every 0.25 epochs of one in 2 epochs"),
        ("500", "null", "every 500 batches"),
        ("500", "1", "every 500 batches of each epoch"),
    ],
)
def test_the_validation_interval_is_that_of_lightning(
    interval: str, epochs: str, text: str
) -> None:
    overrides = [
        f"trainer.val_check_interval={interval}",
        f"trainer.check_val_every_n_epoch={epochs}",
    ]
    assert validation_interval(compose(LSTM, overrides).recipe) == text


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        ("trainer.max_steps=4600", "training budget"),
        ("data.batch_tokens=2048", "training budget"),
        ("data.batch_examples=16", "training budget"),
        ("trainer.devices=2", "training budget"),
        ("trainer.limit_train_batches=9", "training budget"),
        ("generation.search={name: beam, width: 4}", "search"),
        ("trainer.val_check_interval=100", "validation interval"),
        ("checkpoint.patience=null", "early stopping"),
        ("checkpoint.monitor=validation/token_accuracy", "selection"),
        ("checkpoint.averaging={name: ema}", "selection"),
        ("generation.max_length=9", "response length"),
        ("generation.no_repeat_ngram=3", "constraints"),
        ("generation.banned=[damn]", "constraints"),
        ("data.max_source=64", "lengths"),
        ("model.vectors=glove.txt", "initial weights"),
        ("trainer.precision=bf16-mixed", "precision"),
    ],
)
def test_a_setting_that_must_be_equal(overrides: str, what: str) -> None:
    systems = system(LSTM), system(LSTM, overrides)
    assert differing(*systems)[what]
    (line,) = broken(parity(systems))
    assert line.startswith(f"{what}: ")
    assert " / " in line


def test_the_same_setting_written_differently_is_equal() -> None:
    short = "generation.search={name: beam, width: 5}"
    long = "generation.search={name: beam, normalisation: average, candidates: 1, width: 5}"
    assert differing(system(LSTM, short), system(LSTM, long)) == {}
    accumulated = system(LSTM, "trainer.accumulate_grad_batches=4")
    assert differing(
        accumulated, system(LSTM, "trainer.devices=2", "trainer.num_nodes=2")
    ).keys() == {
        "batch size",
        "accumulated batches",
    }
    (row,) = [
        row for row in parity([system(LSTM, "trainer.devices=-1")]) if row.what == "batch size"
    ]
    assert row.values == ("1024 tokens on each of devices=-1, num_nodes=1",)


def test_settings_that_may_differ() -> None:
    systems = (
        system(LSTM),
        system(LSTM, "model.dropout=0.3", "optimizer.lr=1e-3", flops_per_target_token=9e6),
    )
    assert differing(*systems) == {
        "dropout": False,
        "optimizer": False,
        "FLOPs per target token": False,
    }
    assert differing(system(LSTM), system(LSTM, "data.bpe_dropout=0.1")) == {"BPE dropout": False}


def test_batches_of_a_number_of_examples() -> None:
    """With epochs as the budget, another batch size is reported only; `batch_tokens` then changes
    no training.
    """
    epochs = ("trainer.max_steps=-1", "trainer.max_epochs=3")
    first, second = (
        system(LSTM, *epochs, f"data.batch_examples={examples}") for examples in (32, 64)
    )
    assert differing(first, second) == {"batch size": False}
    assert (
        differing(first, system(LSTM, *epochs, "data.batch_examples=32", "data.batch_tokens=2048"))
        == {}
    )
    (row,) = [row for row in parity([first, system(LSTM, *epochs)]) if row.what == "batch size"]
    assert row.values == ("32 examples", "1024 tokens")


def test_numbers_that_must_be_equal() -> None:
    assert differing(system(LSTM), system(LSTM, rest=1200)) == {
        "parameters without embeddings (within 10 %)": True,
        "parameters (within 10 %)": False,
    }
    assert differing(system(LSTM, "about.trials=4"), system(LSTM)) == {"tuning trials": True}
    assert differing(system(LSTM), system(LSTM, seeds=(1, 2, 3))) == {"seeds": True}
    assert differing(system(LSTM), system(LSTM, seeds=(3, 4))) == {}


def test_target_tokens_must_be_equal_unless_the_budget_is_time() -> None:
    """A run that ended early, diverged or not, has seen less; so has the slower one in a given
    time.
    """

    def trained(tokens: int, *overrides: str) -> EvaluatedSystem:
        contender = system(LSTM, *overrides)
        first, *others = contender.model.runs
        runs = (replace(first, target_tokens=tokens), *others)
        return contender._replace(model=replace(contender.model, runs=runs))

    assert differing(trained(50_000), trained(45_000)) == {}  # means 50,000 and 47,500
    assert differing(trained(50_000), trained(0)) == {"target tokens seen (within 10 %)": True}
    timed = [trained(tokens, "trainer.max_time=00:01:00:00") for tokens in (50_000, 9)]
    assert differing(*timed) == {"target tokens seen (within 10 %)": False}


def test_differences_come_first() -> None:
    rows = parity(
        [system(LSTM), system(TRANSFORMER, "generation.max_length=9", "model.dropout=0.5")]
    )
    order = [(row.equal, not row.must) for row in rows]
    assert order == sorted(order)
    assert rows[0].what == "response length"


RESPONSES = EvaluatedSystem(
    None,
    {},
    ModelResults("theirs", "responses", runs=(RunResults(None),)),
    TEST_SET,
)
"""A file of responses, of which only the test set is known."""


def test_a_system_without_a_recipe_breaks_nothing() -> None:
    """Its settings are hidden; with a statement, that is compared with what recipes have."""
    assert parity([RESPONSES, RESPONSES]) == parity([system(LSTM), RESPONSES]) == ()
    both = parity([system(LSTM), RESPONSES, system(LSTM)])
    assert all(row.equal and row.values[1] == "not stated" for row in both)
    assert broken(both) == []
    stated = RESPONSES._replace(stated={"parameters": 7, "budget": "3 epochs"})
    rows = {row.what: row for row in parity([system(LSTM), stated])}
    assert rows["parameters as stated"].values[1] == 7
    assert rows["data as stated"].values[1] == "unknown"
    assert rows["budget as stated"].values[1] == "3 epochs"
    assert not any(row.must for row in rows.values())


def test_flops_are_of_the_mean_lengths(trained: Callable[[str], Path]) -> None:
    run = dialog.load(trained("lstm"))
    texts = ["Hello !", "How are you ?", "I am fine , thank you ."]
    context = tuple(Turn("BA"[place % 2], text) for place, text in enumerate(texts))
    sample = [
        Example("d#1", "d", context[:1], Turn("A", texts[2]), 0),
        Example("d#2", "d", context, Turn("A", "Hi"), 0),
    ]
    size = [len(run.tokenizer.encode(text)) for text in texts]
    source = round(((size[0] + 2) + (sum(size) + 4)) / 2)
    target = round((size[2] + 2 + len(run.tokenizer.encode("Hi")) + 2) / 2) - 1
    assert flops_per_target_token(run, sample) == training_flops(run.model, source, target) / target
