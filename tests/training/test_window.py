"""An optimizer step is the same however its examples are shared: real processes, real accumulation."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

FAMILIES = ("lstm", "transformer")
SPLITS = ((1, 4), (2, 1), (2, 2), (4, 1))
SUMS = ("loss", "objective", "coverage", "reverse", "denoising", "generation_probability", "gradient_norm")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``worlds.py`` has written."""
    folder = tmp_path_factory.mktemp("worlds")
    script = Path(__file__).with_name("worlds.py")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, str(script), str(folder)], check=True, timeout=600, env=environment)
    return folder


def run(folder: Path, family: str, precision: str, world: int, accumulated: int) -> dict[str, Any]:
    return read(folder / f"{family}-{precision}-{world}-{accumulated}.pt")


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = torch.load(path, weights_only=True)
    return found


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("world", "accumulated"), SPLITS)
@pytest.mark.parametrize(("precision", "tolerance"), [("32-true", 1e-6), ("64-true", 1e-12)])
def test_a_step_is_of_all_its_tokens(
    runs: Path, family: str, precision: str, tolerance: float, world: int, accumulated: int
) -> None:
    """The mean of each process's or batch's mean is not the mean over all tokens."""
    whole, shared = run(runs, family, precision, 1, 1), run(runs, family, precision, world, accumulated)
    assert [line["step"] for line in shared["lines"]] == [line["step"] for line in whole["lines"]] == list(range(20))
    for one, other in zip(whole["lines"], shared["lines"], strict=True):
        for name in SUMS:
            assert other[f"train/{name}"] == pytest.approx(one[f"train/{name}"], rel=tolerance, abs=tolerance), name
    torch.testing.assert_close(shared["weights"], whole["weights"], rtol=0, atol=tolerance)
    assert shared["tokens"] == whole["tokens"]


def test_gradients_are_shared_once_a_step(runs: Path) -> None:
    """Not with each batch that is accumulated."""
    shared = run(runs, "lstm", "32-true", 2, 2)["shared"]
    assert len(shared) == 4 * 4
    assert not any(shared)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("accumulated", [1, 2])
def test_parameters_that_are_shared_out_train_as_the_whole(runs: Path, family: str, accumulated: int) -> None:
    whole = run(runs, family, "32-true", 1, 1)
    first, second = (read(runs / f"{family}-sharded-{accumulated}-{rank}.pt") for rank in (0, 1))
    for one, other in zip(whole["lines"], first["lines"], strict=True):
        for name in SUMS:
            assert other[f"train/{name}"] == pytest.approx(one[f"train/{name}"], rel=1e-6, abs=1e-6), name
    torch.testing.assert_close(first["weights"], whole["weights"], rtol=0, atol=1e-6)
    assert first["tokens"] == second["tokens"] == whole["tokens"]


def test_each_process_keeps_its_part_of_parameters_and_states(runs: Path) -> None:
    parts = [read(runs / f"lstm-sharded-1-{rank}.pt") for rank in (0, 1)]
    size = len(parts[0]["weights"])
    assert sum(each["weights here"] for each in parts) == size
    assert sum(each["states here"] for each in parts) == 2 * size  # Adam's two moments
    assert max(each["weights here"] for each in parts) < 0.6 * size
