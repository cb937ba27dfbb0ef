"""Real trainings through the real command line, that are killed, told to stop, and run out of disk."""

from __future__ import annotations

import resource
import signal
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from kills import command, has_lines, killed
from processes import Server, serving

from dialog.runs.proof import compare, lines
from dialog.training.checkpoints.checkpoint_io import LAST, SafeCheckpointIO

STEPS = 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("real")) as made:
        yield made


@pytest.fixture(scope="module")
def whole(server: Server) -> Path:
    """A training in two processes that was left alone."""
    folder = server.folder / "whole"
    assert server.start(*command("lstm", 2, STEPS, str(folder)), world=2).wait() == [0, 0]
    return folder


def step(folder: Path) -> int:
    checkpoint: dict[str, int] = SafeCheckpointIO().load_checkpoint(folder / "checkpoints" / LAST)
    return checkpoint["global_step"]


def goes_on(server: Server, folder: Path, *, world: int) -> None:
    """To its end."""
    training = server.start("train", "--resume", str(folder), world=world)
    assert training.wait() == [0] * world, training.said


def test_a_training_that_is_killed_again_and_again(server: Server) -> None:
    found = killed(server, "transformer", 1, kills=3, steps=STEPS, seed=0)
    assert found.same, found


@pytest.mark.parametrize(
    ("number", "rank", "code"), [(signal.SIGTERM, 1, 143), (signal.SIGINT, 0, 130)], ids=["term 1", "int 0"]
)
def test_a_signal_to_any_process_stops_all_at_one_step(
    server: Server, whole: Path, number: signal.Signals, rank: int, code: int
) -> None:
    folder = server.folder / f"stopped-{code}"
    training = server.start(*command("lstm", 2, STEPS, str(folder)), world=2)
    training.until(partial(has_lines, folder, 5))
    begun = time.monotonic()
    training.send(number, rank)
    assert training.wait() == [code, code], training.said
    assert time.monotonic() - begun < 10
    reached = step(folder)
    assert 0 < reached < STEPS
    (told,) = [line for line in training.said.splitlines() if "--resume" in line]
    assert f"stopped by {number.name}; to go on from step {reached}: " in told
    assert told.endswith(f"train --resume {folder}")
    assert "Traceback" not in training.said
    assert not (folder / "model.safetensors").exists()
    goes_on(server, folder, world=2)
    assert compare(folder, whole).same


def test_a_disk_that_is_full_costs_no_checkpoint(server: Server) -> None:
    """And the training that goes on when there is room again is the one that never lacked it."""
    left, folder = server.folder / "room", server.folder / "full"
    assert server.start(*command("lstm", 1, STEPS, str(left))).wait() == [0]
    training = server.start(*command("lstm", 1, STEPS, str(folder)))
    training.until((folder / "checkpoints" / LAST).exists)
    resource.prlimit(training.numbers[0], resource.RLIMIT_FSIZE, (100_000, 100_000))
    assert training.wait() == [1], training.said
    assert f"{folder}/checkpoints/" in training.said
    assert "cannot be saved" in training.said
    assert "Traceback" not in training.said
    assert 0 < step(folder) < STEPS
    assert not [path.name for path in (folder / "checkpoints").iterdir() if path.name.startswith(".")]
    goes_on(server, folder, world=1)
    assert compare(folder, left).same


def test_two_do_not_train_in_one_folder(server: Server) -> None:
    folder = server.folder / "shared"
    first = server.start(*command("transformer", 1, 2000, str(folder)))
    first.until(partial(has_lines, folder, 3))
    second = server.start("train", "--resume", str(folder))
    assert second.wait() == [2]
    assert second.said == f"dialog: {folder}: another process trains in it; wait until it ends, or stop it\n"
    before = lines(folder)
    first.until(partial(has_lines, folder, before + 3))
    first.send(signal.SIGTERM)
    assert first.wait() == [143]
