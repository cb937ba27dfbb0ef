"""Stand-in for CUDA graphs on a CPU: records torch's calls, and does them again."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from operations import Operation, Operations
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map

Result = TypeVar("Result")


class Call(NamedTuple):
    operation: Operation
    copied: list[tuple[int, Tensor]]  # results with memory of their own, by their places


class RecordedCalls:
    """Recorder of `dialog.training.optimization.graphs` on a CPU; it refuses what CUDA graphs cannot record.

    `foreign` has the tensors that calls read and that no recorded call made.
    """

    def __init__(self) -> None:
        self.foreign: list[Tensor] = []
        self.made: list[Tensor] = []  # keeps their addresses from being used again

    @contextmanager
    def watch(self) -> Iterator[list[str]]:
        reads: list[str] = []

        def look(operation: Operation) -> None:
            if reads_host(operation):
                frames = [each for each in traceback.extract_stack() if "/dialog/" in each.filename]
                place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
                reads.append(f"{place} {operation.call}")

        with Operations(look):
            yield reads

    def record(self, function: Callable[[], Result]) -> tuple[Result, Callable[[], None]]:
        calls: list[Call] = []
        addresses = {address(each) for each in self.made}

        def keep(operation: Operation) -> None:
            if reads_host(operation):
                raise RuntimeError(f"{operation.call} is not permitted while recording")
            inputs = arguments(operation)
            self.foreign += [
                each for each in inputs if each.numel() and address(each) not in addresses
            ]
            before = {address(each) for each in inputs}
            copied = [
                (place, each.data)
                for place, each in enumerate(tree_leaves(operation.result))
                if isinstance(each, Tensor) and address(each) not in before
            ]
            self.made += [each for _, each in copied]
            addresses.update(address(each) for _, each in copied)
            if torch.Tag.inplace_view in operation.call.tags:
                return
            if copied or operation.call._schema.is_mutable:
                calls.append(Call(with_own_shapes(operation), copied))

        state = torch.get_rng_state()
        with Operations(keep):
            result = function()
        torch.set_rng_state(state)
        # a graph has no values before its first replay
        for call in calls:
            for _, each in call.copied:
                if each.is_floating_point():
                    each.fill_(torch.nan)

        def replay() -> None:
            with torch.no_grad(), torch.autocast("cpu", enabled=False):
                for call in calls:
                    operation = call.operation
                    fresh = tree_leaves(operation.call(*operation.arguments, **operation.options))
                    for place, each in call.copied:
                        each.copy_(fresh[place])

        return result, replay


def with_own_shapes(operation: Operation) -> Operation:
    """The same call of other tensors in the same memory: torch may change a tensor's shape later."""
    changed = tree_map(
        lambda each: each.data if isinstance(each, Tensor) else each,
        (operation.arguments, operation.options),
    )
    return operation._replace(arguments=changed[0], options=changed[1])


def arguments(operation: Operation) -> list[Tensor]:
    leaves = tree_flatten((operation.arguments, operation.options))[0]
    return [each for each in leaves if isinstance(each, Tensor)]


def address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def reads_host(operation: Operation) -> bool:
    """Whether a call's result, or its shape, depends on values that the host must read."""
    tags: Any = operation.call.tags
    if torch.Tag.data_dependent_output in tags:
        return True
    if operation.call in (torch.ops.aten.index.Tensor, torch.ops.aten.index_put_.default):
        masks = [each for each in arguments(operation)[1:] if each.dtype is torch.bool]
        return bool(masks)
    return torch.Tag.dynamic_output_shape in tags
