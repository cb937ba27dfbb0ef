"""The same command line in processes that torchrun has started, or SLURM: real ones on this machine."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialog.errors import UserError
from dialog.training.distributed.cluster import check_launch, check_strategy

RECIPE = "quickstart/transformer"
SMALL = [
    "data.corpus.size=60",
    "data.tokenizer.vocabulary=400",
    "data.batch_tokens=1200",
    "model.embedding_size=16",
    "model.encoder.heads=2",
    "model.encoder.feed_forward_size=16",
    "model.decoder.heads=2",
    "model.decoder.feed_forward_size=16",
    "trainer.precision=64-true",
    "trainer.accelerator=cpu",
    "trainer.max_steps=6",
    "trainer.val_check_interval=6",
    "trainer.check_val_every_n_epoch=null",
    "trainer.log_every_n_steps=1",
    "trainer.enable_progress_bar=false",
]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def done(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def test_two_nodes_are_one_process_that_accumulates(tmp_path: Path) -> None:
    """The same losses, gradients and validation, from the same batches and the same dropout."""
    from dialog.config.compose import compose
    from dialog.runs.train import train as train_run

    sizes = [*SMALL, "trainer.accumulate_grad_batches=2", "trainer.val_check_interval=12"]
    train_run(compose(RECIPE, sizes), tmp_path / "one", quiet=True)
    meeting = ["--nnodes=2", "--nproc-per-node=1", "--rdzv-backend=c10d", f"--rdzv-endpoint=127.0.0.1:{free_port()}"]
    train = ["-m", "dialog", "train", RECIPE, *SMALL, "trainer.num_nodes=2", "--output", str(tmp_path / "two")]
    nodes = [start("torch.distributed.run", *meeting, "--local-addr=127.0.0.1", *train) for _ in range(2)]
    printed = sorted(done(each).strip() for each in nodes)
    assert printed == ["", str(tmp_path / "two")]
    one, two = lines(tmp_path / "one"), lines(tmp_path / "two")
    assert len([line for line in two if "train/loss" in line]) == 6
    assert len([line for line in two if "validation/loss" in line]) == 1
    for line, other in zip(one, two, strict=True):
        same = {name for name in line if not name.endswith(("time", "per_second"))}
        assert same <= other.keys()
        for name in same:
            assert other[name] == pytest.approx(line[name], rel=0, abs=1e-9), name


def test_processes_that_evaluate_write_what_one_would(trained: Callable[[str], Path], tmp_path: Path) -> None:
    run = shutil.copytree(trained("lstm"), tmp_path / "run")
    before = {path.name: path.read_bytes() for path in (run / "evaluation" / "test").iterdir()}
    assert set(before) == {"metrics.json", "responses.jsonl"}
    shutil.rmtree(run / "evaluation")
    meeting = {"SLURM_JOB_ID": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    tasks = {
        "SLURM_NTASKS": "2",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_NODEID": "0",
        "SLURM_JOB_NAME": "evaluate",
        "PYTHONOPTIMIZE": "1",  # no work may be done inside an assert
    }
    first, second = (
        start("dialog", "evaluate", str(run), "--json", **meeting, **tasks, SLURM_PROCID=rank, SLURM_LOCALID=rank)
        for rank in "01"
    )
    printed, nothing = done(first), done(second)
    assert nothing == ""
    assert {path.name: path.read_bytes() for path in (run / "evaluation" / "test").iterdir()} == before
    assert json.loads(printed) == json.loads(before["metrics.json"])


@pytest.mark.parametrize(
    ("variables", "processes", "message"),
    [
        ({"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "2"}, 4, "torchrun started 2 processes, .* is 4; make them agree"),
        ({"SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8"}, 4, "srun started 8 processes, .* is 4; make them agree"),
        ({"SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8"}, 1, "srun started 8 processes"),
        ({"SLURM_NTASKS": "4", "SLURM_JOB_NAME": "train"}, 4, "one process of a SLURM job, .* srun --ntasks-per-node"),
    ],
)
def test_more_or_fewer_processes_than_were_started_are_refused(
    variables: dict[str, str], processes: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check_launch(processes, variables)


@pytest.mark.parametrize(
    ("variables", "processes"),
    [
        ({}, 4),
        ({"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "4"}, 4),
        ({"SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8"}, 8),
        ({"SLURM_NTASKS": "8", "SLURM_JOB_NAME": "train"}, 1),
        ({"SLURM_NTASKS": "8", "SLURM_JOB_NAME": "interactive"}, 2),
    ],
)
def test_as_many_processes_as_were_started_are_fine(variables: dict[str, str], processes: int) -> None:
    check_launch(processes, variables)


@pytest.mark.parametrize("strategy", ["fsdp_cpu_offload", "deepspeed_stage_3"])
def test_parameters_are_not_shared_out_by_halves(strategy: str) -> None:
    with pytest.raises(UserError, match=f"strategy {strategy} is not known here"):
        check_strategy(strategy, "32-true")


@pytest.mark.parametrize("precision", ["16-mixed", "64-true"])
def test_parameters_are_shared_out_in_what_torch_can_do(precision: str) -> None:
    with pytest.raises(UserError, match=f"fsdp does not go with precision {precision}; take 32-true, .* ddp"):
        check_strategy("fsdp", precision)
    check_strategy("fsdp", "bf16-mixed")
    check_strategy("ddp", precision)
    check_strategy("auto", precision)
