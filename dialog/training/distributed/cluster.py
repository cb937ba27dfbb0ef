"""Detect who starts the processes of a run: torchrun, SLURM's srun, or Lightning
(`local_launcher.py`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from dialog.errors import UserError

if TYPE_CHECKING:
    from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment

SHARDED_PRECISIONS = ("32-true", "bf16-mixed", "bf16-true")


class ExternalLauncher(NamedTuple):
    """A program that has started all processes."""

    name: str
    processes: int


def external_launcher(variables: Mapping[str, str] = os.environ) -> ExternalLauncher | None:
    """Return torchrun or srun with its number of processes; None for a process that was started
    alone.
    """
    if "TORCHELASTIC_RUN_ID" in variables:
        return ExternalLauncher("torchrun", int(variables["WORLD_SIZE"]))
    if "SLURM_STEP_NUM_TASKS" in variables and "SLURM_NTASKS" in variables:
        return ExternalLauncher("srun", int(variables["SLURM_STEP_NUM_TASKS"]))
    return None


def cluster_environment() -> ClusterEnvironment | None:
    """Return Lightning's description of the processes that torchrun or srun has started.

    Raises:
        UserError: Lightning cannot read SLURM's variables; it needs ``--ntasks-per-node``, not
            ``--ntasks``.
    """
    launcher = external_launcher()
    if launcher is None:
        return None
    from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

    try:
        return (
            TorchElasticEnvironment()
            if launcher.name == "torchrun"
            else SLURMEnvironment(auto_requeue=False)
        )
    except RuntimeError as error:
        raise UserError(str(error)) from error


@contextmanager
def process_group() -> Iterator[None]:
    """Join the processes that torchrun or srun has started to a gloo group, one GPU each.

    For work outside training, where Lightning does this. Does nothing for a process that was
    started alone.
    """
    environment = cluster_environment()
    if environment is None or environment.world_size() == 1:
        yield
        return
    import torch
    import torch.distributed as dist

    if torch.cuda.is_available():
        torch.cuda.set_device(environment.local_rank() % torch.cuda.device_count())
    address = f"tcp://{environment.main_address}:{environment.main_port}"
    dist.init_process_group(
        "gloo",
        init_method=address,
        rank=environment.global_rank(),
        world_size=environment.world_size(),
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def check_world_size(processes: int, variables: Mapping[str, str] = os.environ) -> None:
    """Check that as many processes were started as will train; otherwise they would wait for each
    other forever.

    Raises:
        UserError: unequal numbers of processes, or more processes than cores if this one starts the
            others.
    """
    launcher = external_launcher(variables)
    if launcher is not None and launcher.processes != processes:
        raise UserError(
            f"{launcher.name} started {launcher.processes} processes, devices x num_nodes is"
            f" {processes}; make them equal"
        )
    batch_job = "SLURM_NTASKS" in variables and variables.get("SLURM_JOB_NAME") not in (
        "bash",
        "interactive",
    )
    if launcher is None and batch_job and processes > 1:
        raise UserError(
            f"this is one process of a SLURM job, devices x num_nodes is {processes}: start it with"
            " srun --ntasks-per-node=DEVICES, or name the job interactive to train on this node"
            " only"
        )
    if (
        launcher is None
        and "NODE_RANK" not in variables
        and processes > (os.cpu_count() or processes)
    ):
        raise UserError(f"{processes} processes for {os.cpu_count()} cores; lower devices")


def check_strategy(name: str, precision: str) -> None:
    """Check that a strategy shards parameters as ``fsdp`` does or not at all.

    Under other sharded strategies each process would clip by the norm of its own shard of the
    gradient and save its own shard of the weights. fp16 would need a common loss scale.

    Raises:
        UserError: unsupported strategy, or a precision that fsdp does not support.
    """
    if name.startswith(("fsdp_", "deepspeed")):
        raise UserError(
            f"trainer.strategy: unsupported strategy {name}; use fsdp to shard parameters"
        )
    if name == "fsdp" and precision not in SHARDED_PRECISIONS:
        raise UserError(
            f"trainer.strategy: fsdp does not support precision {precision}; "
            f"use {', '.join(SHARDED_PRECISIONS)}, or strategy ddp"
        )
