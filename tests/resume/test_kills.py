"""Real trainings through the command line: killed, stopped by signals, out of disk space,
resumed.
"""

from __future__ import annotations

import resource
import signal
import time
from functools import partial
from pathlib import Path

import pytest
import torch
from kills import command, has_lines, train, train_with_kills
from processes import Server

from dialog.runs.folder import Trained, read_summary
from dialog.runs.proof import compare, lines, values
from dialog.training.checkpoints.checkpoint_io import LAST, SafeCheckpointIO

STEPS = 12


@pytest.fixture(scope="module")
def alone(server: Server) -> Path:
    """An uninterrupted training in one process."""
    return train(server, "lstm", 1, server.folder / "alone", steps=STEPS)


@pytest.fixture(scope="module")
def pair(server: Server) -> Path:
    """An uninterrupted training in two processes."""
    return train(server, "lstm", 2, server.folder / "pair", steps=STEPS)


def summary(folder: Path) -> Trained:
    trained = read_summary(folder)
    assert trained is not None
    return trained


def step(folder: Path) -> int:
    checkpoint: dict[str, int] = SafeCheckpointIO().load_checkpoint(folder / "checkpoints" / LAST)
    return checkpoint["global_step"]


def resume(server: Server, folder: Path, *overrides: str, world: int) -> None:
    training = server.start("train", "--resume", str(folder), *overrides, world=world)
    assert training.wait() == [0] * world, training.output


def split(world: int) -> list[str]:
    """Return the settings of a step of four batches."""
    return [f"trainer.devices={world}", f"trainer.accumulate_grad_batches={4 // world}"]


@pytest.mark.endurance
def test_killed_run_is_the_uninterrupted_run(server: Server, alone: Path) -> None:
    folder = train_with_kills(
        server, "lstm", 1, server.folder / "killed", kills=1, steps=STEPS, seed=0
    )
    assert compare(folder, alone).same


@pytest.mark.endurance
@pytest.mark.parametrize(
    ("number", "rank", "code"),
    [(signal.SIGTERM, 1, 143), (signal.SIGINT, 0, 130)],
    ids=["term 1", "int 0"],
)
def test_signal_to_any_rank_stops_all_at_one_step(
    server: Server, pair: Path, number: signal.Signals, rank: int, code: int
) -> None:
    folder = server.folder / f"stopped-{code}"
    training = server.start(*command("lstm", 2, STEPS, folder), world=2)
    training.until(partial(has_lines, folder, 1))
    started = time.monotonic()
    training.send(number, rank)
    assert training.wait() == [code, code], training.output
    assert time.monotonic() - started < 10
    reached = step(folder)
    assert 0 < reached < STEPS
    (message,) = [line for line in training.output.splitlines() if "--resume" in line]
    assert f"stopped by {number.name}; resume at step {reached}: " in message
    assert message.endswith(f"train --resume {folder}")
    assert "Traceback" not in training.output
    resume(server, folder, world=2)
    assert compare(folder, pair).same
    assert summary(folder).target_tokens == summary(pair).target_tokens


@pytest.mark.endurance
@pytest.mark.parametrize(
    ("family", "strategy", "precision", "tolerance"),
    [("lstm", "auto", "64-true", 1e-9), ("transformer", "fsdp", "32-true", 1e-4)],
)
def test_resumed_with_another_number_of_processes(
    server: Server, family: str, strategy: str, precision: str, tolerance: float
) -> None:
    """Two processes, one that accumulates twice as many batches, and two again."""
    folder = server.folder / f"split-{family}"
    overrides = [
        f"trainer.strategy={strategy}",
        f"trainer.precision={precision}",
        "optimizer=sgd_plateau",  # Adam divides rounding by itself
        "trainer.val_check_interval=0.3",
        "trainer.check_val_every_n_epoch=1",
    ]
    whole = train(server, family, 2, server.folder / f"whole-{family}", *overrides, steps=20)
    training = server.start(*command(family, 2, 20, folder, *overrides), world=2)
    for world in (1, 2):
        training.until(partial(has_lines, folder, lines(folder) + 5))  # a checkpoint every 3 steps
        training.send(signal.SIGKILL)
        training.wait()
        training = server.start("train", "--resume", str(folder), *split(world), world=world)
    assert not any(training.wait()), training.output
    for (*place, value), (*same_place, expected) in zip(values(folder), values(whole), strict=True):
        assert place == same_place
        assert float.fromhex(value) == pytest.approx(
            float.fromhex(expected), rel=tolerance, abs=tolerance
        ), place
    states = [
        SafeCheckpointIO().load_checkpoint(run / "checkpoints" / LAST)["state_dict"]
        for run in (folder, whole)
    ]
    torch.testing.assert_close(*states, rtol=tolerance, atol=tolerance)
    counts = [(trained.steps, trained.target_tokens) for trained in map(summary, (folder, whole))]
    assert counts[0] == counts[1]


@pytest.mark.endurance
def test_sweep_and_tune_stopped_by_a_signal_say_what_to_do(server: Server) -> None:
    """Not how to resume a run that they have started."""
    _, *recipe = command("lstm", 1, 5000, server.folder / "swept")
    sweeping = server.start("sweep", *recipe, "--trials", "2")
    tunings = [server.start("tune", *recipe[:-2], "--lr", "--steps", "5000") for _ in range(2)]
    sweeping.until(lambda: [*server.folder.glob("swept/runs/**/metrics.jsonl")])
    sweeping.send(signal.SIGHUP)
    for tuning, number in zip(tunings, (signal.SIGINT, signal.SIGTERM), strict=True):
        tuning.until(lambda: " of 5,000" in tuning.output)  # noqa: B023 - called in this round
        tuning.send(number)
    outputs = [process.output for process in (sweeping, *tunings)]
    assert [process.wait() for process in (sweeping, *tunings)] == [[129], [130], [143]], outputs
    assert (
        "stopped by SIGHUP; resume the sweep: python -m dialog sweep --resume"
        f" {server.folder}/swept\n" in sweeping.output
    )
    interrupted, terminated = (tuning.output for tuning in tunings)
    assert "stopped by SIGINT; tuning has no result, run it again\n" in interrupted
    assert "stopped by SIGTERM; tuning has no result, run it again\n" in terminated
    assert "train --resume" not in sweeping.output + interrupted + terminated


@pytest.mark.endurance
def test_full_disk_costs_no_checkpoint(server: Server, alone: Path) -> None:
    """Resumed with room on the disk, the run is the uninterrupted one."""
    folder = server.folder / "full"
    training = server.start(*command("lstm", 1, STEPS, folder))
    training.until((folder / "checkpoints" / LAST).exists)
    resource.prlimit(training.pids[0], resource.RLIMIT_FSIZE, (100_000, 100_000))
    assert training.wait() == [2], training.output
    (line,) = [line for line in training.output.splitlines() if "cannot be saved" in line]
    assert line.startswith(f"dialog: {folder}/checkpoints/")
    assert line.endswith(f"continue with: python -m dialog train --resume {folder}")
    assert "Traceback" not in training.output
    assert 0 < step(folder) < STEPS
    assert not [
        path.name for path in (folder / "checkpoints").iterdir() if path.name.startswith(".")
    ]
    resume(server, folder, world=1)
    assert compare(folder, alone).same


@pytest.mark.endurance
def test_only_one_process_trains_in_a_folder(server: Server) -> None:
    folder = server.folder / "shared"
    first = server.start(*command("transformer", 1, 2000, folder))
    first.until(partial(has_lines, folder, 3))
    second = server.start("train", "--resume", str(folder))
    assert second.wait() == [2]
    assert (
        second.output
        == f"dialog: {folder}: another process trains in it; wait until it ends, or stop it\n"
    )
    before = lines(folder)
    first.until(partial(has_lines, folder, before + 3))
    first.send(signal.SIGTERM)
    assert first.wait() == [143]
