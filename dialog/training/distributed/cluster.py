"""Who has started the processes of a run: torchrun, SLURM's srun, or Lightning, which starts them itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dialog.errors import UserError

if TYPE_CHECKING:
    from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment

SHARED = ("32-true", "bf16-mixed", "bf16-true")
"""The precisions of parameters that are shared out."""


def starter(variables: Mapping[str, str] = os.environ) -> tuple[str, int] | None:
    """Who has started how many processes; nothing where this one was started alone."""
    if "TORCHELASTIC_RUN_ID" in variables:
        return "torchrun", int(variables["WORLD_SIZE"])
    if "SLURM_STEP_NUM_TASKS" in variables and "SLURM_NTASKS" in variables:
        return "srun", int(variables["SLURM_STEP_NUM_TASKS"])
    return None


def started() -> ClusterEnvironment | None:
    """Where the processes that torchrun or srun has started find each other.

    Raises:
        UserError: Lightning cannot make out which of them this is: it wants ``--ntasks-per-node``, not ``--ntasks``.
    """
    found = starter()
    if found is None:
        return None
    from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
    from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment

    try:
        return TorchElasticEnvironment() if found[0] == "torchrun" else SLURMEnvironment(auto_requeue=False)
    except RuntimeError as error:
        raise UserError(str(error)) from error


@contextmanager
def joined() -> Iterator[None]:
    """Join the processes that torchrun or srun has started to one group, each with a GPU of its own where there are.

    For what is no training; there Lightning does it. Where nobody has started others, nothing happens.
    """
    environment = started()
    if environment is None or environment.world_size() == 1:
        yield
        return
    import torch
    import torch.distributed as dist

    if torch.cuda.is_available():
        torch.cuda.set_device(environment.local_rank() % torch.cuda.device_count())
    address = f"tcp://{environment.main_address}:{environment.main_port}"
    dist.init_process_group(
        "gloo", init_method=address, rank=environment.global_rank(), world_size=environment.world_size()
    )
    try:
        yield
    finally:
        dist.destroy_process_group()


def check_launch(processes: int, variables: Mapping[str, str] = os.environ) -> None:
    """Refuse to train with other processes than were started, which would wait for each other for ever.

    Raises:
        UserError: with who has started how many.
    """
    found = starter(variables)
    if found is not None and found[1] != processes:
        raise UserError(f"{found[0]} started {found[1]} processes, devices x num_nodes is {processes}; make them agree")
    shell = "SLURM_NTASKS" in variables and variables.get("SLURM_JOB_NAME") not in ("bash", "interactive")
    if found is None and shell and processes > 1:
        raise UserError(
            f"this is one process of a SLURM job, devices x num_nodes is {processes}: start it with "
            f"srun --ntasks-per-node=DEVICES, or name the job interactive to have processes of this node only"
        )


def check_strategy(name: str, precision: str) -> None:
    """Refuse what shares out the parameters in another way than ``fsdp``, and ``fsdp`` where torch cannot do it.

    In another way a process would clip by the norm of its own part of the gradient, and save its own part of the
    weights. With fp16 parts of a gradient would need a scale in common.

    Raises:
        UserError: it is asked for.
    """
    if name.startswith(("fsdp_", "deepspeed")):
        raise UserError(f"strategy {name} is not known here; to share out parameters among processes use fsdp")
    if name == "fsdp" and precision not in SHARED:
        raise UserError(f"strategy fsdp does not go with precision {precision}; take {', '.join(SHARED)}, or use ddp")
