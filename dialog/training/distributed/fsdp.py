"""Networks that no process holds in full: parameters, gradients and optimizer states are shared out (FSDP)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
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
    OptimStateKeyType,
    fully_shard,
    register_fsdp_forward_method,
)
from torch.distributed.tensor import DTensor, distribute_tensor

from dialog.models.transformer.layers import DecoderLayer, EncoderLayer
from dialog.ranks import world_size
from dialog.training.lightning_internals import FixedDataParallelStrategy

WHOLE = StateDictOptions(full_state_dict=True)


class FullyShardedStrategy(FixedDataParallelStrategy):
    """``trainer.strategy: fsdp``; each process keeps 1/N of all parameters, gradients and optimizer states.

    A step computes what one of ``ddp`` does (FSDP2 of torch; Zhao et al. 2023, arXiv 2304.11277). Checkpoints are the
    whole state in one file, as everywhere: assembled in the first process, read by the same :class:`SafeCheckpointIO`.
    Only its own are read: another strategy numbers the optimizer's states otherwise.
    """

    def __init__(self) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=False)

    def load_checkpoint(self, checkpoint_path: str | Path, weights_only: bool | None = True) -> dict[str, Any]:
        """Read a checkpoint that is whole, and give each process its part of weights and optimizer states.

        Raises:
            UserError: there is no whole one.
        """
        checkpoint = self.checkpoint_io.load_checkpoint(self.broadcast(checkpoint_path), weights_only=weights_only)
        module = self.lightning_module
        assert module is not None
        distribute(checkpoint.pop("state_dict"), module)
        for optimizer, state in zip(self.optimizers, checkpoint["optimizer_states"], strict=True):
            if not state["state"]:  # plain SGD has none, which torch's way does not expect
                for group, saved in zip(optimizer.param_groups, state["param_groups"], strict=True):
                    group.update({key: value for key, value in saved.items() if key != "params"})
                continue
            named = FullyShardedDataParallel.rekey_optim_state_dict(state, OptimStateKeyType.PARAM_NAME, module)
            set_optimizer_state_dict(module, optimizer, named, options=WHOLE)
        return checkpoint


def shard(module: LightningModule, mesh: DeviceMesh) -> None:
    """Share out the first process's parameters: layers of Transformers are gathered when used, the rest for a step."""
    if isinstance(module, FSDPModule):
        return
    parts = mesh["data_parallel"]
    agree(module, module.trainer.strategy.root_device)
    for layer in module.modules():
        if isinstance(layer, nn.RNNBase):  # cuDNN's flat weights would lie where nothing is gathered to
            vars(layer)["flatten_parameters"] = lambda: None
        if isinstance(layer, EncoderLayer | DecoderLayer):
            fully_shard(layer, mesh=parts)
        if isinstance(layer, DecoderLayer):
            register_fsdp_forward_method(layer, "read")
    fully_shard(module, mesh=parts)
    for step in ("training_step", "validation_step"):
        register_fsdp_forward_method(module, step)


@torch.no_grad()
def agree(module: nn.Module, device: torch.device) -> None:
    """Give all processes the first one's parameters and buffers, as ``ddp`` does."""
    if world_size() == 1:
        return
    for each in chain(module.parameters(), module.buffers()):
        first = each.to(device, copy=True)
        dist.broadcast(first, 0)
        each.copy_(first)


@torch.no_grad()
def distribute(state: Mapping[str, Tensor], module: nn.Module) -> None:
    """Give a sharded module its part of whole tensors; torch's own way knows no parameter that has two names."""
    for name, each in chain(module.named_parameters(), module.named_buffers()):
        if isinstance(each, DTensor):
            each.copy_(distribute_tensor(state[name].to(each.device), each.device_mesh, each.placements))
        elif name in state:  # a buffer that is saved
            each.copy_(state[name])


@contextmanager
def gathered_weights(module: nn.Module) -> Iterator[None]:
    """Let every process use parts of a network that is shared out, outside its steps; all have to come here.

    Layers of Transformers are still gathered one by one.
    """
    if isinstance(module, FSDPModule):
        module.unshard()
    try:
        yield
    finally:
        if isinstance(module, FSDPModule):
            module.reshard()


def is_sharded(module: nn.Module) -> bool:
    """Whether a module's parameters are shared out among processes."""
    return any(isinstance(each, FSDPModule) for each in module.modules())


def multiply(parameters: Iterable[nn.Parameter], factor: float | Tensor) -> None:
    """Multiply the gradients of parameters, or this process's parts of them."""
    torch._foreach_mul_([own(each.grad) for each in parameters if each.grad is not None], factor)


def own(tensor: Tensor) -> Tensor:
    """This process's part of a tensor; all of one that is not shared out."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor, of which each process may have a part."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
