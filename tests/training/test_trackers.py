"""Trackers that cannot be reached, fail, are slow or find the disk full; training does not depend
on them.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from lightning.pytorch.loggers import Logger
from PIL import Image
from processes import Processes, Server
from wandb_file import read_offline

import dialog
from dialog.errors import DivergedError
from dialog.runs.evaluation.evaluate import evaluate
from dialog.runs.train import PartOf, train
from dialog.training.loggers import (
    SAMPLES,
    BackgroundLogger,
    RecordLogger,
    build_loggers,
    close,
    labelled,
)
from dialog.training.loggers.wandb_tracker import WandbTracker

STEPS = ["trainer.max_steps=4", "trainer.val_check_interval=4", "trainer.log_every_n_steps=1"]


class StubTracker(Logger):
    """Calls a function at each step."""

    name = version = "stub"

    def __init__(self, on_step: Callable[[int | None], object]) -> None:
        self.on_step = on_step

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        self.on_step(step)

    def log_hyperparams(self, params: Any, *args: Any, **kwargs: Any) -> None:
        pass


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def recorded_steps(folder: Path) -> list[int]:
    """Steps of the whole lines: a running process may be writing the last one."""
    whole, _, _ = (folder / "metrics.jsonl").read_text(encoding="utf-8").rpartition("\n")
    lines = [json.loads(line) for line in whole.splitlines()]
    return [line["step"] for line in lines if "train/loss" in line]


def test_blocked_tracker_does_not_block_its_caller(caplog: pytest.LogCaptureFixture) -> None:
    """The calls below would wait forever if they waited at all."""
    release = threading.Event()
    steps: list[int | None] = []
    logger = BackgroundLogger(
        StubTracker(lambda step: (release.wait(), steps.append(step))), capacity=5, patience=0.05
    )
    for step in range(20):
        logger.log_metrics({}, step)
    logger.close()
    release.set()
    slow, late = warnings_of(caplog)
    assert "Stub is slower than training" in slow
    assert late.startswith("Stub has not caught up within 0.05 s; continuing without it")


def test_tracker_that_fails_is_dropped_with_one_warning(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    steps: list[int | None] = []

    def fail_at_third(step: int | None) -> None:
        steps.append(step)
        if step == 3:
            raise ConnectionResetError("Connection lost")

    loggers = [RecordLogger(tmp_path), BackgroundLogger(StubTracker(fail_at_third))]
    for step in range(10):
        for logger in loggers:
            logger.log_metrics({"train/loss": 1.0}, step)
    close(loggers)
    assert steps == [1, 2, 3]
    assert recorded_steps(tmp_path) == [*range(1, 11)]
    (warning,) = warnings_of(caplog)
    assert warning.startswith(
        "Stub failed (ConnectionResetError: Connection lost); continuing without it"
    )


def test_full_disk_drops_tensorboard(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    record, tensorboard = build_loggers({"name": "tensorboard"}, tmp_path)
    assert isinstance(tensorboard, BackgroundLogger)
    image = Image.frombytes("RGB", (200, 200), os.urandom(120_000))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
    try:
        for step in range(6):
            record.log_metrics({"train/loss": 1.0}, step)
            tensorboard.submit(tensorboard.tracker.log_images, {"map": image}, step)
            tensorboard.save()
        close([tensorboard])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert recorded_steps(tmp_path) == [*range(1, 7)]
    (warning,) = warnings_of(caplog)
    assert "TensorBoard failed (OSError" in warning


# ------------------------------------------------------------------ Weights & Biases in real processes


@pytest.fixture
def silent_address() -> Iterator[str]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"


def start_wandb(
    server: Server, recipe: dialog.Recipe, folder: Path, **environment: str
) -> Processes:
    path = folder.parent / f"{folder.name}.yaml"
    path.write_text(recipe.yaml(), encoding="utf-8")
    return server.start("train", str(path), "--output", str(folder), environment=environment)


def test_a_run_without_a_connection_is_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What the failed run has left would be uploaded as a second one."""
    modes = []

    def started(tracker: WandbTracker, mode: str) -> str:
        modes.append(mode)
        if mode == "online":
            (tracker.folder / "wandb" / "run-20260101_000000-abc").mkdir(parents=True)
            raise ConnectionError("no route\nto the host")
        return mode

    monkeypatch.setattr(WandbTracker, "_started", started)
    assert WandbTracker(tmp_path, mode="online")._connected() == "offline"
    assert modes == ["online", "offline"]
    assert not [*tmp_path.glob("wandb/*")]
    (warning,) = warnings_of(caplog)
    assert "no route" in warning


@pytest.mark.endurance
def test_unreachable_server_leaves_a_complete_offline_run(
    server: Server,
    tiny: Callable[..., Any],
    tmp_path: Path,
    silent_address: str,
    closed_address: str,
) -> None:
    recipe = tiny("lstm", "logger=wandb", *STEPS)
    began = time.monotonic()
    runs = {
        tmp_path / name: start_wandb(
            server,
            recipe,
            tmp_path / name,
            WANDB_API_KEY="0123456789" * 4,
            WANDB_BASE_URL=address,
            **added,
        )
        for name, address, added in (
            ("silent", silent_address, {}),
            ("closed", closed_address, {"WANDB_MODE": "online"}),
        )
    }
    for folder, training in runs.items():
        assert training.wait() == [0], training.output
        assert recorded_steps(folder) == [1, 2, 3, 4]
        (warning,) = [line for line in training.output.splitlines() if "cannot be reached" in line]
        assert warning.endswith(
            f"continuing offline; to upload later: wandb sync {folder}/wandb/*run-*"
        )
        (offline,) = folder.glob("wandb/*run-*-*")
        assert len(read_offline(offline).values("train/loss")) == 4
        assert "Traceback" not in training.output
    assert time.monotonic() - began < 60  # 90 s and more with wandb's own waiting time


@pytest.mark.endurance
def test_killed_service_does_not_stop_training(
    server: Server, tiny: Callable[..., Any], tmp_path: Path
) -> None:
    steps = ["trainer.max_steps=1000000", "trainer.log_every_n_steps=1"]
    folder = tmp_path / "run"
    training = start_wandb(
        server, tiny("lstm", "logger=wandb", *steps), folder, WANDB_MODE="offline"
    )
    training.until(
        lambda: services(training.pids[0]) and [*folder.glob("wandb/offline-run-*/*.wandb")]
    )
    (service,) = services(training.pids[0])
    os.kill(service, signal.SIGKILL)
    training.until(lambda: "continuing without it" in training.output)
    steps_before = len(recorded_steps(folder))
    training.until(lambda: len(recorded_steps(folder)) > steps_before + 30)
    training.send(signal.SIGTERM)
    assert training.wait() == [143], training.output
    (warning,) = [line for line in training.output.splitlines() if "continuing without it" in line]
    assert "to upload later: wandb sync" in warning
    assert "Traceback" not in training.output


def services(parent: int) -> list[int]:
    """Return the wandb services that a process has started."""
    status = [
        path.read_text(encoding="utf-8").split()
        for path in Path("/proc").glob("[0-9]*/stat")
        if path.exists()
    ]
    return [
        int(fields[0])
        for fields in status
        if fields[3] == str(parent) and "wandb-core" in fields[1]
    ]


# ------------------------------------------------------------------ names, test metrics and samples


def test_evaluation_is_logged_to_the_named_run(tiny: Callable[..., Any], tmp_path: Path) -> None:
    import wandb

    composed = tiny("transformer", "logger=wandb", "logger.mode=offline", *STEPS)
    part_of = PartOf("quickstart/transformer seed 7", "comparison")
    train(composed, tmp_path / "run", quiet=True, part_of=part_of)
    metrics = evaluate(dialog.load(tmp_path / "run"), "test", quiet=True).metrics
    wandb.teardown()  # its service has then written all
    first, second = (
        read_offline(path) for path in sorted(tmp_path.glob("run/wandb/offline-run-*"))
    )
    for offline in (first, second):
        assert offline.labels == (part_of.run_name, part_of.group, {"transformer", "builtin"})
    assert first.folder.name.rpartition("-")[2] == second.folder.name.rpartition("-")[2]
    assert second.values("test/perplexity_token") == [pytest.approx(metrics["perplexity_token"])]
    assert second.values("trainer/global_step")[0] == 4
    (path,) = second.folder.glob("files/media/table/test/responses*.json")
    table = json.loads(path.read_text(encoding="utf-8"))
    assert table["columns"] == ["context", "reference", "response"]
    assert 0 < len(table["data"]) <= SAMPLES
    (path,) = second.folder.glob("files/media/table/test/subsets*.json")
    table = json.loads(path.read_text(encoding="utf-8"))
    assert table["columns"] == ["metric", *metrics["subsets"]]
    (row,) = (row for row in table["data"] if row[0] == "bits_per_byte")
    wanted = [one.get("bits_per_byte", math.nan) for one in metrics["subsets"].values()]
    assert row[1:] == pytest.approx(wanted, nan_ok=True)
    assert not any(key.startswith("test/subsets/") for row in second.rows for key in row)


def test_divergence_sends_an_alert(tiny: Callable[..., Any], tmp_path: Path) -> None:
    import wandb

    composed = tiny("lstm", "logger=wandb", "logger.mode=offline", "optimizer.lr=1e30", *STEPS)
    with pytest.raises(DivergedError):
        train(composed, tmp_path / "run", quiet=True)
    wandb.teardown()
    (path,) = tmp_path.glob("run/wandb/offline-run-*")
    assert read_offline(path).alerts == ["run diverged"]


def test_labels_are_set_only_where_a_logger_takes_them() -> None:
    label = partial(labelled, run_name="r", group=None, tags=["t"])
    assert label({"name": "tensorboard"}) == {"name": "tensorboard"}
    assert label({"name": "wandb", "run_name": "mine"}) == {
        "name": "wandb",
        "run_name": "mine",
        "tags": ["t"],
    }


def test_tensorboard_has_images_and_test_metrics(tiny: Callable[..., Any], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(tiny("lstm", "logger=tensorboard", *STEPS), tmp_path / "run", quiet=True)
    evaluate(dialog.load(tmp_path / "run"), "test", quiet=True)
    events = EventAccumulator(
        str(tmp_path / "run" / "tensorboard"), size_guidance={"scalars": 0, "images": 0}
    )
    events.Reload()
    tags = events.Tags()
    assert [event.step for event in events.Scalars("train/loss")] == [1, 2, 3, 4]
    assert {"validation/loss", "test/perplexity_token", "attention/entropy/mean"} <= set(
        tags["scalars"]
    )
    (tag,) = (tag for tag in tags["images"] if tag.startswith("attention/"))
    assert re.fullmatch(r"attention/\d+/decoder.attention", tag)
    assert "test/responses/text_summary" in tags["tensors"]
