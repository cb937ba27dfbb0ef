"""The monitored metric, the end of training, when it is validated, and reproducibility."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dialog
from dialog.build import build_model, build_module, build_trainer
from dialog.config.yaml_layers import parse_value, read_yaml
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import PAD
from dialog.errors import UserError
from dialog.runs.train import train
from dialog.training.callbacks.stopping import build_clock
from dialog.training.checkpoints.best_and_last import MONITORS, monitor_named
from dialog.training.checkpoints.checkpoint_io import SafeCheckpointIO
from dialog.training.loggers import RecordLogger

Tiny = Callable[..., Any]


class Scripted(dialog.DialogModule):
    """Validates with scripted losses and accuracies."""

    script: Iterator[tuple[float, float]] = iter(())

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        if batch_index == 0:
            nll, correct = next(self.script)
            self.split_metrics.update(nll=nll, correct=correct, tokens=1, bytes=1)


def run(
    tiny: Tiny, data: Path, folder: Path, script: list[tuple[float, float]], *overrides: str
) -> dict[str, int]:
    """Train with a scripted validation after each step; return the steps of the best and the last
    checkpoint.
    """
    every = ["trainer.val_check_interval=1", f"trainer.max_steps={len(script)}"]
    recipe = tiny("transformer", *every, *overrides).recipe
    module = Scripted(build_model(recipe.model, 400), padding=PAD)
    module.script = iter(script)
    build_trainer(recipe, folder, []).fit(module, dialog.DialogDataModule(data, batch_tokens=1200))
    return {name: steps(folder, name) for name in ("best", "last")}


def steps(folder: Path, name: str) -> int:
    return int(
        SafeCheckpointIO().load_checkpoint(folder / "checkpoints" / f"{name}.ckpt")["global_step"]
    )


# ------------------------------------------------------------------ the best


def test_every_validation_metric_has_a_direction(tiny: Tiny, prepared: Path) -> None:
    recipe = tiny("transformer").recipe
    module = build_module(recipe, 400)
    trainer = build_trainer(recipe, Path(), [])
    metrics = trainer.validate(
        module, dialog.DialogDataModule(prepared, batch_tokens=1200), verbose=False
    )[0]
    assert {name for name in metrics if name.startswith("validation/")} == MONITORS.keys()


SCRIPT = [(3.0, 0.1), (1.0, 0.4), (2.0, 0.6), (2.0, 0.5), (2.0, 0.5), (2.0, 0.5)]


@pytest.mark.parametrize(
    ("name", "best"), [("loss", 2), ("perplexity", 2), ("bits_per_byte", 2), ("token_accuracy", 3)]
)
def test_best_and_patience_follow_the_monitored_metric(
    tiny: Tiny, prepared: Path, tmp_path: Path, name: str, best: int
) -> None:
    overrides = [f"checkpoint.monitor=validation/{name}", "checkpoint.patience=2"]
    assert run(tiny, prepared, tmp_path, SCRIPT, *overrides) == {"best": best, "last": best + 2}


def test_unknown_monitor_is_rejected_before_training(tiny: Tiny, tmp_path: Path) -> None:
    with pytest.raises(UserError) as raised:
        train(tiny("lstm", "checkpoint.monitor=val_loss"), tmp_path / "run", quiet=True)
    assert (
        str(raised.value)
        == f"checkpoint.monitor: no validation logs 'val_loss'; choose from {', '.join(MONITORS)}"
    )
    assert not (tmp_path / "run").exists()
    assert {monitor_named(name).mode for name in MONITORS} == {"min", "max"}


# ------------------------------------------------------------------ the clock


@settings(max_examples=40)
@given(
    days=st.integers(0, 20),
    hours=st.integers(0, 23),
    minutes=st.integers(0, 59),
    seconds=st.integers(1, 59),
)
def test_every_format_of_max_time(
    tmp_path_factory: pytest.TempPathFactory, days: int, hours: int, minutes: int, seconds: int
) -> None:
    """Including those that YAML 1.1 reads as base-60 numbers."""
    expected = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()
    text = f"{days}:{hours:02}:{minutes:02}:{seconds:02}"
    words = f"{{days: {days}, hours: {hours}, minutes: {minutes}, seconds: {seconds}}}"
    path = tmp_path_factory.mktemp("time") / "t.yaml"
    path.write_text(f"a: {text}\nb: '{text}'\nc: [{text}]\nd: {words}\n", encoding="utf-8")
    values = read_yaml(path).values
    for max_time in (
        values["a"],
        values["b"],
        values["c"][0],
        values["d"],
        parse_value("", text),
        parse_value("", f"'{text}'"),
    ):
        (clock,) = build_clock(max_time)
        assert clock.time_remaining() == expected


@pytest.mark.parametrize(
    "max_time", ["soon", "1:30:00", "3600", "'3600'", "{hour: 2}", "{hours: x}", "0:00:00:00", "{}"]
)
def test_invalid_max_time_is_rejected(tiny: Tiny, max_time: str) -> None:
    recipe = tiny("lstm", f"trainer.max_time={max_time}").recipe
    with pytest.raises(
        UserError,
        match=r"^trainer: max_time must be DD:HH:MM:SS, such as 00:08:30:00, or {hours: 8.5}",
    ):
        build_trainer(recipe, Path(), [])


@pytest.mark.parametrize("epochs", ["null", "3"], ids=["across epochs", "in a later epoch"])
def test_run_ended_by_the_clock_is_validated_and_complete(
    tiny: Tiny, tmp_path: Path, epochs: str
) -> None:
    overrides = [
        "trainer.max_steps=-1",
        "trainer.max_time={seconds: 0.05}",
        "trainer.accumulate_grad_batches=2",
    ]
    intervals = [
        f"trainer.check_val_every_n_epoch={epochs}",
        f"trainer.val_check_interval={'9999' if epochs == 'null' else 1.0}",
    ]
    trained = train(tiny("transformer", *overrides, *intervals), tmp_path / "run", quiet=True)
    assert trained.steps >= 1
    assert {steps(trained.folder, name) for name in ("best", "last")} == {trained.steps}
    assert dialog.load(trained.folder).model


# ------------------------------------------------------------------ validations


def test_validation_every_n_batches_counts_across_epochs(
    tiny: Tiny, prepared: Path, tmp_path: Path
) -> None:
    overrides = [
        "trainer.check_val_every_n_epoch=null",
        "trainer.limit_train_batches=3",
        "trainer.log_every_n_steps=1",
    ]
    recipe = tiny(
        "transformer", "trainer.val_check_interval=2", "trainer.max_steps=8", *overrides
    ).recipe
    tmp_path.joinpath("run").mkdir()
    trainer = build_trainer(recipe, tmp_path / "run", [RecordLogger(tmp_path / "run")])
    trainer.fit(build_module(recipe, 400), dialog.DialogDataModule(prepared, batch_tokens=1200))
    validated = [line["step"] for line in record(tmp_path / "run") if "validation/loss" in line]
    assert validated == [2, 4, 6, 8]


# ------------------------------------------------------------------ the record


END = {
    "steps": (6, ["trainer.max_steps=6"]),
    "epochs": (
        3,
        ["trainer.max_epochs=1", "trainer.max_steps=-1", "trainer.limit_train_batches=6"],
    ),
    "clock": (1, ["trainer.max_time={seconds: 1e-6}", "trainer.max_steps=-1"]),
}


@pytest.mark.parametrize("end", END)
def test_the_last_row_has_the_figures_of_its_own_step(
    tiny: Tiny, prepared: Path, tmp_path: Path, end: str
) -> None:
    """Also between two logging steps, whatever ends training."""
    steps, limits = END[end]
    rows = []
    for every in (1, 2 if end == "epochs" else 4):
        folder = tmp_path / str(every)
        folder.mkdir()
        overrides = [
            f"trainer.log_every_n_steps={every}",
            "trainer.accumulate_grad_batches=2",
            *limits,
        ]
        recipe = tiny("transformer", *overrides, "trainer.val_check_interval=9999").recipe
        trainer = build_trainer(recipe, folder, [RecordLogger(folder)])
        trainer.fit(build_module(recipe, 400), dialog.DialogDataModule(prepared, batch_tokens=1200))
        rows.append({line["step"]: line for line in record(folder) if "train/loss" in line})
    complete, sparse = rows
    assert list(complete) == list(range(1, steps + 1))
    assert list(sparse)[-1] == steps
    assert sparse == {step: complete[step] for step in sparse}


# ------------------------------------------------------------------ reproducibility


CLOCKS = ("time", "train/tokens_per_second")


def record(folder: Path) -> list[dict[str, Any]]:
    """Return the logged values, without times."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [
        {key: value for key, value in json.loads(line).items() if key not in CLOCKS}
        for line in lines
    ]


@pytest.fixture
def algorithms() -> Iterator[None]:
    """Switch off torch's deterministic mode, which Lightning leaves on."""
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("family", ["lstm", "transformer"])
def test_same_recipe_gives_the_same_numbers(
    tiny: Tiny, tmp_path: Path, family: str, algorithms: None
) -> None:
    overrides = [
        "trainer.deterministic=true",
        "trainer.max_steps=6",
        "trainer.val_check_interval=3",
    ]
    overrides += [
        "trainer.log_every_n_steps=1",
        "model.dropout=0.3",
        "model.objectives=[{name: denoising}]",
    ]
    folders = [
        train(tiny(family, *overrides), tmp_path / name, quiet=True).folder for name in ("a", "b")
    ]
    assert torch.are_deterministic_algorithms_enabled()
    first, second = map(record, folders)
    assert first == second
    assert len([line for line in first if "train/loss" in line]) == 6
    weights = [dialog.load(folder).model.state_dict() for folder in folders]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    other = train(
        tiny(family, *overrides, "seed=2", "trainer.max_steps=1"), tmp_path / "c", quiet=True
    ).folder
    assert record(other)[0]["train/loss"] != first[0]["train/loss"]
