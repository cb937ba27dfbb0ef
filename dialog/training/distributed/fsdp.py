"""Shard parameters, gradients and optimizer states over all ranks (FSDP2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_optimizer_state_dict
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import (
    FSDPModule,
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    OptimStateKeyType,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.tensor import DTensor, distribute_tensor

from dialog.models.kernels.private_operators import scale_tensors
from dialog.models.transformer.layers import DecoderLayer, EncoderLayer
from dialog.ranks import world_size
from dialog.training.lightning_internals import FixedDataParallelStrategy

FULL_STATE = StateDictOptions(full_state_dict=True)


class FullyShardedStrategy(FixedDataParallelStrategy):
    """``trainer.strategy: fsdp``; each of N processes keeps 1/N of parameters, gradients and
    optimizer states.

    A step computes the same update as ``ddp`` (torch's FSDP2; Zhao et al. 2023, arXiv 2304.11277).
    A checkpoint is one file with the full state, gathered on the first rank and read by
    :class:`SafeCheckpointIO`, as for other strategies. It can only be resumed with ``fsdp``: other
    strategies number the optimizer's states differently.
    """

    def __init__(self) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=False)

    def load_checkpoint(
        self, checkpoint_path: str | Path, weights_only: bool | None = True
    ) -> dict[str, Any]:
        """Read a full checkpoint and load this rank's shard of weights and optimizer states.

        Raises:
            UserError: no checkpoint is intact.
        """
        checkpoint = self.checkpoint_io.load_checkpoint(
            self.broadcast(checkpoint_path), weights_only=weights_only
        )
        module = self.lightning_module
        assert module is not None
        load_full_state(checkpoint.pop("state_dict"), module)
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            if not state["state"]:  # plain SGD; set_optimizer_state_dict expects states
                for group, saved in zip(optimizer.param_groups, state["param_groups"], strict=True):
                    group.update({key: value for key, value in saved.items() if key != "params"})
                continue
            named = FullyShardedDataParallel.rekey_optim_state_dict(
                state, OptimStateKeyType.PARAM_NAME, module
            )
            set_optimizer_state_dict(module, optimizer, named, options=FULL_STATE)
        return checkpoint


def shard(module: LightningModule, mesh: DeviceMesh) -> None:
    """Shard the first rank's parameters; Transformer layers are gathered one by one, all others for
    a whole step.

    Under bf16-mixed, layers are gathered in bfloat16, in which autocast multiplies by them, so
    products are those of other strategies; gradients are summed over ranks in float32. All other
    parameters are gathered in float32, for what autocast computes in float32.
    """
    if isinstance(module, FSDPModule):
        return
    policy = (
        MixedPrecisionPolicy(torch.bfloat16, torch.float32, cast_forward_inputs=False)
        if is_mixed(module)
        else MixedPrecisionPolicy()
    )
    data_parallel = mesh["data_parallel"]
    broadcast_weights(module, module.trainer.strategy.root_device)
    for layer in module.modules():
        if isinstance(layer, nn.RNNBase):  # cuDNN's flat buffer would not see gathered weights
            vars(layer)["flatten_parameters"] = lambda: None
        if isinstance(layer, EncoderLayer | DecoderLayer):
            fully_shard(layer, mesh=data_parallel, mp_policy=policy)
            if is_mixed(module):
                compute_norms_exactly(layer)
        if isinstance(layer, DecoderLayer):
            register_fsdp_forward_method(layer, "source_keys_values")
    fully_shard(module, mesh=data_parallel)
    for step in ("training_step", "validation_step", "test_step", "predict_step"):
        register_fsdp_forward_method(module, step)


def is_mixed(module: LightningModule) -> bool:
    """Return whether the module trains in bf16-mixed."""
    return str(module.trainer.precision) == "bf16-mixed"


def compute_norms_exactly(layer: nn.Module) -> None:
    """Compute the norms of a layer that is gathered in bfloat16 in float32; torch's norms on a CPU
    need weights of their input's type.
    """
    for norm in layer.modules():
        if isinstance(norm, nn.LayerNorm | nn.RMSNorm):
            vars(norm)["forward"] = partial(_norm_in_float32, norm)


def _norm_in_float32(norm: nn.Module, states: Tensor) -> Tensor:
    gathered = dict(norm._parameters)
    exact = {name: value if value is None else value.float() for name, value in gathered.items()}
    norm._parameters.update(exact)  # type: ignore[arg-type]  # no longer leaves
    try:
        normed: Tensor = type(norm).forward(norm, states)
    finally:
        norm._parameters.update(gathered)
    return normed


@torch.no_grad()
def broadcast_weights(module: nn.Module, device: torch.device) -> None:
    """Copy the first rank's parameters and buffers to all ranks, as ``ddp`` does."""
    if world_size() == 1:
        return
    for tensor in chain(module.parameters(), module.buffers()):
        first = tensor.to(device, copy=True)
        dist.broadcast(first, 0)
        tensor.copy_(first)


@torch.no_grad()
def load_full_state(state: Mapping[str, Tensor], module: nn.Module) -> None:
    """Load this rank's shards of full tensors; torch's own function fails for tied parameters."""
    for name, tensor in chain(module.named_parameters(), module.named_buffers()):
        if isinstance(tensor, DTensor):
            tensor.copy_(
                distribute_tensor(
                    state[name].to(tensor.device), tensor.device_mesh, tensor.placements
                )
            )
        elif name in state:  # a persistent buffer
            tensor.copy_(state[name])


@contextmanager
def gathered_weights(module: LightningModule) -> Iterator[None]:
    """Gather a sharded module's parameters for use outside its steps; all ranks must enter.

    Transformer layers are still gathered one by one; under bf16-mixed in bfloat16, which needs
    autocast.
    """
    if not isinstance(module, FSDPModule):
        yield
        return
    module.unshard()
    try:
        with torch.autocast(module.device.type, torch.bfloat16, enabled=is_mixed(module)):
            yield
    finally:
        module.reshard()


def is_sharded(module: nn.Module) -> bool:
    """Return whether any parameters of the module are sharded."""
    return any(isinstance(submodule, FSDPModule) for submodule in module.modules())


def scale_gradients(parameters: Iterable[nn.Parameter], factor: float | Tensor) -> None:
    """Multiply the gradients of parameters in place."""
    scale_tensors([local_shard(one.grad) for one in parameters if one.grad is not None], factor)


def local_shard(tensor: Tensor) -> Tensor:
    """Return this rank's shard of a tensor; the tensor itself if it is not sharded."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def full_tensor(tensor: Tensor) -> Tensor:
    """Gather a tensor from all ranks; the tensor itself if it is not sharded."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
