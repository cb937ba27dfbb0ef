"""Sharded parameters in real processes: runs equal those of ddp, resume exactly, and reject what
cannot be sharded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from kills import command, train, train_with_kills
from processes import Server
from safetensors.torch import load_file

from dialog.runs.load import load
from dialog.runs.proof import compare
from dialog.training.checkpoints.checkpoint_io import LAST, SafeCheckpointIO
from dialog.training.distributed.fsdp import full_tensor, is_sharded, local_shard

STEPS = 8
SETTINGS = {
    # without optimizer states
    "lstm": ["optimizer=sgd_plateau", "optimizer.momentum=0", "optimizer.nesterov=false"],
    "transformer": ["trainer.precision=bf16-mixed"],
}
Run = Callable[[str, str], Path]
FAMILIES = pytest.mark.parametrize("family", SETTINGS)


@pytest.fixture(scope="module")
def trained(server: Server) -> Run:
    """``trained(family, strategy)``: a run of two processes, with preflight."""

    @cache
    def run(family: str, strategy: str) -> Path:
        overrides = (f"trainer.strategy={strategy}", "preflight=true", *SETTINGS[family])
        return train(
            server, family, 2, server.folder / f"{family}-{strategy}", *overrides, steps=STEPS
        )

    return run


def record(folder: Path) -> list[dict[str, float]]:
    return [
        json.loads(line)
        for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]


@pytest.mark.endurance
@FAMILIES
def test_sharded_run_equals_ddp(trained: Run, family: str) -> None:
    """Record, shapes of checkpoints and weights, names of attention maps."""
    tolerance = 2e-2 if family == "transformer" else 1e-4
    folders = [trained(family, strategy) for strategy in ("fsdp", "ddp")]
    for line, expected in zip(*map(record, folders), strict=True):
        assert line.keys() == expected.keys()
        for name in line.keys() - {"time", "train/tokens_per_second"}:
            assert line[name] == pytest.approx(expected[name], rel=tolerance, abs=tolerance), name
    states = [
        SafeCheckpointIO().load_checkpoint(folder / "checkpoints" / LAST)["state_dict"]
        for folder in folders
    ]
    shapes = [{name: value.shape for name, value in state.items()} for state in states]
    assert shapes[0] == shapes[1]
    best = [load_file(folder / "model.safetensors") for folder in folders]
    assert best[0].keys() == best[1].keys()
    model = load(folders[0]).model
    assert sum(value.numel() for value in model.parameters()) == sum(
        value.numel() for value in best[0].values()
    )
    maps = [
        sorted(path.relative_to(folder) for path in folder.glob("attention/*/*.json"))
        for folder in folders
    ]
    assert maps[0] == maps[1]
    assert maps[0]


@pytest.mark.endurance
@FAMILIES
def test_sharded_run_resumes_exactly(server: Server, trained: Run, family: str) -> None:
    folder = server.folder / f"{family}-killed"
    overrides = ("trainer.strategy=fsdp", *SETTINGS[family])
    train_with_kills(server, family, 2, folder, *overrides, kills=1, steps=STEPS, seed=0)
    comparison = compare(folder, trained(family, "fsdp"))
    assert comparison.same, comparison


@pytest.mark.endurance
@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("optimizer=adafactor_inverse_sqrt", "adafactor: needs unsharded parameters"),
        (
            "checkpoint.averaging={name: ema}",
            "checkpoint.averaging needs all weights in each process",
        ),
    ],
)
def test_unshardable_settings_leave_no_run(server: Server, override: str, message: str) -> None:
    folder = server.folder / re.sub(r"\W", "", override)
    training = server.start(
        *command("lstm", 2, STEPS, folder, "trainer.strategy=fsdp", override), world=2
    )
    assert all(training.wait())
    assert message in training.output
    assert "Traceback" not in training.output
    assert not folder.exists()


def test_plain_tensors_are_their_own_shards() -> None:
    tensor = torch.ones(2)
    assert local_shard(tensor) is tensor
    assert full_tensor(tensor) is tensor
    assert not is_sharded(torch.nn.Linear(1, 1))
