"""The record of metrics, TensorBoard, and when Weights & Biases is online."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialog.runs.train import train
from dialog.training.loggers import RecordLogger, RecordPosition, wandb_mode


def test_record_is_json_for_values_that_are_not_finite(tmp_path: Path) -> None:
    record = RecordLogger(tmp_path)
    record.log_metrics(
        {"train/loss": float("nan"), "train/gradient_norm": float("inf"), "epoch": 0}, 3
    )

    def fail(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    line = json.loads((tmp_path / "metrics.jsonl").read_text(encoding="utf-8"), parse_constant=fail)
    # Lightning counts from 0
    assert (line["step"], line["train/loss"], line["train/gradient_norm"]) == (4, None, None)


def record_of(folder: Path, steps: int) -> RecordLogger:
    record = RecordLogger(folder)
    for step in range(steps):
        record.log_metrics({"train/loss": 1.5, "epoch": 0}, step)
    return record


def steps_in(folder: Path) -> list[int]:
    return [
        json.loads(line)["step"] for line in (folder / "metrics.jsonl").read_bytes().splitlines()
    ]


def test_checkpoint_waits_until_the_record_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = record_of(tmp_path, 2)
    synced = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    RecordPosition(record).state_dict()
    assert synced == [(tmp_path / "metrics.jsonl").stat().st_ino]


@pytest.mark.parametrize(
    ("damage", "message", "steps"),
    [
        (lambda content: content, None, [1, 2, 3, 4]),
        # killed after the checkpoint
        (lambda content: content + b'{"step": 5, "time"', None, [1, 2, 3, 4]),
        (
            lambda content: content[:100],
            "3 of 4 lines up to step 4 are missing (left are steps 1 to 1)",
            [1],
        ),
        (
            lambda content: content.replace(b'"step": 2', b'"st\x00p": 2'),
            "1 of 4 lines up to step 4",
            [1, 3, 4],
        ),
        (
            lambda content: content.replace(b"1.5", b"1.4", 1),
            "0 of 4 lines up to step 4",
            [1, 2, 3, 4],
        ),
        (None, "4 of 4 lines up to step 4 are missing (none is left)", []),
    ],
)
def test_damaged_record_is_repaired_and_reported(
    tmp_path: Path,
    damage: Callable[[bytes], bytes] | None,
    message: str | None,
    steps: list[int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "metrics.jsonl"
    position = record_of(tmp_path, 4).position()
    content = path.read_bytes()
    path.unlink()
    if damage is not None:
        path.write_bytes(damage(content))
    record = RecordLogger(tmp_path)
    record.resume(4, **position)
    record.log_metrics({"train/loss": 1.5}, 4)
    assert steps_in(tmp_path) == [*steps, 5]
    assert [f"{path}: damaged; {message}" in line for line in caplog.messages] == (
        [True] if message else []
    )
    caplog.clear()
    RecordLogger(tmp_path).resume(5, **record.position())
    assert not caplog.messages


@pytest.mark.parametrize(
    ("machine", "environment", "mode"),
    [
        ("api.wandb.ai", {}, "online"),
        ("api.forge.coreweave.com", {}, "online"),
        ("example.org", {}, "offline"),
        ("wandb.example.org", {"WANDB_BASE_URL": "https://wandb.example.org"}, "online"),
        ("api.wandb.ai", {"WANDB_BASE_URL": "https://wandb.example.org"}, "offline"),
        ("api.wandb.ai", {"WANDB_MODE": "offline"}, "offline"),
        ("example.org", {"WANDB_API_KEY": "x" * 40}, "online"),
        ("example.org", {"WANDB_API_KEY": "x" * 40, "WANDB_MODE": "disabled"}, "disabled"),
    ],
)
def test_mode_is_online_only_with_an_account(
    machine: str,
    environment: dict[str, str],
    mode: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("WANDB_MODE", "WANDB_API_KEY", "WANDB_BASE_URL", "NETRC"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert wandb_mode() == "offline"
    (tmp_path / ".netrc").write_text(
        f"machine {machine}\n login user\n password {'x' * 40}\n", encoding="utf-8"
    )
    (tmp_path / ".netrc").chmod(0o600)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert wandb_mode() == mode


@pytest.mark.parametrize("logger", ["tensorboard", "none"])
def test_other_loggers(tiny: Callable[..., Any], tmp_path: Path, logger: str) -> None:
    if logger == "tensorboard":
        pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    steps = ["trainer.max_steps=2", "trainer.log_every_n_steps=1"]
    train(tiny("lstm", f"logger={logger}", *steps), tmp_path / "run", quiet=True)
    assert not (tmp_path / "run" / "wandb").exists()
    events = list((tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))
    assert len(events) == (logger == "tensorboard")
    assert len((tmp_path / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()) == 3
    for event in events:
        assert b"train/loss" in event.read_bytes()
