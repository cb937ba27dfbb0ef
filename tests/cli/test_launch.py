"""The command line in processes that torchrun or SLURM has started on this machine."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from processes import free_port

from dialog.errors import UserError
from dialog.runs.evaluation.evaluated import check_evaluation
from dialog.training.distributed.cluster import check_strategy, check_world_size

RECIPE = "quickstart/transformer"
SETTINGS = [
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
    "logger=none",
]


def start(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-m", *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )


def output(process: subprocess.Popen[str]) -> str:
    """Wait for a process to succeed; return its standard output."""
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return out


def lines(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    ]


@pytest.mark.endurance
def test_two_nodes_equal_one_process_that_accumulates(tmp_path: Path) -> None:
    """Losses, gradients and validation are those of the same batches and the same dropout."""
    from dialog.config.compose import compose
    from dialog.runs.train import train

    overrides = [*SETTINGS, "trainer.accumulate_grad_batches=2", "trainer.val_check_interval=12"]
    train(compose(RECIPE, overrides), tmp_path / "one", quiet=True)
    meeting = [
        "--nnodes=2",
        "--nproc-per-node=1",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint=127.0.0.1:{free_port()}",
    ]
    command = [
        "-m",
        "dialog",
        "train",
        RECIPE,
        *SETTINGS,
        "trainer.num_nodes=2",
        "--output",
        str(tmp_path / "two"),
    ]
    nodes = [
        start("torch.distributed.run", *meeting, "--local-addr=127.0.0.1", *command)
        for _ in range(2)
    ]
    assert sorted(output(node).strip() for node in nodes) == ["", str(tmp_path / "two")]
    one, two = lines(tmp_path / "one"), lines(tmp_path / "two")
    assert len([line for line in two if "train/loss" in line]) == 6
    assert len([line for line in two if "validation/loss" in line]) == 1
    for line, other in zip(one, two, strict=True):
        names = {name for name in line if not name.endswith(("time", "per_second"))}
        assert names <= other.keys()
        for name in names:
            assert other[name] == pytest.approx(line[name], rel=0, abs=1e-9), name


@pytest.mark.endurance
def test_two_processes_evaluate_as_one(trained: Callable[[str], Path], tmp_path: Path) -> None:
    run = shutil.copytree(trained("lstm"), tmp_path / "run")
    files = [
        run / "evaluation" / "test" / name
        for name in ("metrics.json", "responses.jsonl", "statistics.safetensors")
    ]
    expected = {file.name: file.read_bytes() for file in files}
    shutil.rmtree(run / "evaluation")
    variables = {
        "SLURM_JOB_ID": "1",
        "SLURM_JOB_NAME": "evaluate",
        "SLURM_NTASKS": "2",
        "SLURM_NTASKS_PER_NODE": "2",
        "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_NODEID": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "PYTHONOPTIMIZE": "1",  # no work may be done inside an assert
    }
    command = ["dialog", "evaluate", str(run), "--json"]
    ranks = [start(*command, **variables, SLURM_PROCID=rank, SLURM_LOCALID=rank) for rank in "01"]
    first, second = map(output, ranks)
    assert second == ""
    cost = json.loads((run / "evaluation" / "test" / "cost.json").read_text(encoding="utf-8"))
    assert cost["decoding_seconds"] > 0
    assert {file.name: file.read_bytes() for file in files} == expected
    assert check_evaluation(run / "evaluation" / "test")
    assert json.loads(first) == json.loads(expected["metrics.json"])


@pytest.mark.parametrize(
    ("variables", "processes", "message"),
    [
        (
            {"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "2"},
            4,
            "torchrun started 2 processes, .* is 4; make them equal",
        ),
        (
            {"SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8"},
            4,
            "srun started 8 processes, .* is 4; make them equal",
        ),
        ({"SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8"}, 1, "srun started 8 processes"),
        (
            {"SLURM_NTASKS": "4", "SLURM_JOB_NAME": "train"},
            4,
            "one process of a SLURM job, .* srun --ntasks-per-node",
        ),
        ({}, 10_000, "10000 processes for [0-9]+ cores; lower devices"),
    ],
)
def test_wrong_number_of_started_processes(
    variables: dict[str, str], processes: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check_world_size(processes, variables)


@pytest.mark.parametrize(
    ("variables", "processes"),
    [
        ({}, 1),
        ({"NODE_RANK": "1"}, 10_000),
        ({"TORCHELASTIC_RUN_ID": "a", "WORLD_SIZE": "4"}, 4),
        ({"SLURM_STEP_NUM_TASKS": "8", "SLURM_NTASKS": "8"}, 8),
        ({"SLURM_NTASKS": "8", "SLURM_JOB_NAME": "train"}, 1),
        ({"SLURM_NTASKS": "8", "SLURM_JOB_NAME": "interactive"}, 2),
    ],
)
def test_right_number_of_started_processes(variables: dict[str, str], processes: int) -> None:
    check_world_size(processes, variables)


@pytest.mark.parametrize("strategy", ["fsdp_cpu_offload", "deepspeed_stage_3"])
def test_other_sharded_strategies_are_unsupported(strategy: str) -> None:
    with pytest.raises(UserError, match=f"unsupported strategy {strategy}; use fsdp"):
        check_strategy(strategy, "32-true")


@pytest.mark.parametrize("precision", ["16-mixed", "64-true"])
def test_precisions_that_fsdp_does_not_support(precision: str) -> None:
    with pytest.raises(
        UserError, match=f"fsdp does not support precision {precision}; use 32-true, .* ddp"
    ):
        check_strategy("fsdp", precision)
    check_strategy("fsdp", "bf16-mixed")
    check_strategy("ddp", precision)
    check_strategy("auto", precision)
