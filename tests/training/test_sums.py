"""An optimizer step is the same for any split of its examples into ranks and micro-batches: real
processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

FAMILIES = ("lstm", "transformer")
SPLITS = [(1, 4), (2, 1), (2, 2)]
LOGGED = (
    "loss",
    "objective",
    "coverage",
    "reverse",
    "denoising",
    "generation_probability",
    "gradient_norm",
)
STEPS = 10


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that ``worlds.py`` has written."""
    folder = tmp_path_factory.mktemp("worlds")
    script = Path(__file__).with_name("worlds.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(
        [sys.executable, str(script), str(folder)], check=True, timeout=600, env=environment
    )
    return folder


def run(folder: Path, family: str, precision: str, world: int, accumulated: int) -> dict[str, Any]:
    return read(folder / f"{family}-{precision}-{world}-{accumulated}.pt")


def read(path: Path) -> dict[str, Any]:
    saved: dict[str, Any] = torch.load(path, weights_only=True)
    return saved


def check_equal(split: dict[str, Any], whole: dict[str, Any], tolerance: float) -> None:
    assert (
        [line["step"] for line in split["lines"]]
        == [line["step"] for line in whole["lines"]]
        == list(range(STEPS))
    )
    for one, other in zip(whole["lines"], split["lines"], strict=True):
        for name in LOGGED:
            assert other[f"train/{name}"] == pytest.approx(
                one[f"train/{name}"], rel=tolerance, abs=tolerance
            ), name
    torch.testing.assert_close(split["weights"], whole["weights"], rtol=0, atol=tolerance)
    assert split["tokens"] == whole["tokens"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("world", "accumulated"), SPLITS)
def test_a_step_is_of_all_its_tokens(runs: Path, family: str, world: int, accumulated: int) -> None:
    """The mean of the means of ranks or micro-batches is not the mean over all tokens."""
    split, whole = (
        run(runs, family, "64-true", *counts) for counts in ((world, accumulated), (1, 1))
    )
    check_equal(split, whole, 1e-12)


def test_gradients_are_reduced_once_a_step(runs: Path) -> None:
    """Not with each micro-batch."""
    equal = run(runs, "lstm", "64-true", 2, 2)["equal gradients"]
    assert len(equal) == 2 * 4  # epochs x steps with two micro-batches
    assert not any(equal)


@pytest.mark.parametrize(("family", "accumulated"), [("lstm", 1), ("transformer", 2)])
def test_sharded_parameters_train_as_whole_ones(runs: Path, family: str, accumulated: int) -> None:
    first, second = (read(runs / f"{family}-sharded-{accumulated}-{rank}.pt") for rank in (0, 1))
    check_equal(first, run(runs, family, "32-true", 1, 1), 1e-6)
    assert first["tokens"] == second["tokens"]


def test_each_rank_keeps_its_shard_only(runs: Path) -> None:
    shards = [read(runs / f"lstm-sharded-1-{rank}.pt") for rank in (0, 1)]
    size = len(shards[0]["weights"])
    assert sum(each["weights here"] for each in shards) == size
    assert sum(each["states here"] for each in shards) == 2 * size  # Adam's two moments
    assert max(each["weights here"] for each in shards) < 0.6 * size
