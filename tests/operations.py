"""Operations that torch runs, and the condition of tests that need oneDNN's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

needs_onednn = pytest.mark.skipif(
    not torch.backends.mkldnn.is_available(), reason="torch without oneDNN"
)


class Operation(NamedTuple):
    call: Any  # torch's operator; its tags and schema have no public type
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    result: object


class Operations(TorchDispatchMode):
    """Shows each operation to a function, after it has run."""

    def __init__(self, watch: Callable[[Operation], object]) -> None:
        super().__init__()
        self.watch = watch

    def __torch_dispatch__(
        self,
        call: Callable[..., object],
        types: object,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> object:
        options = kwargs or {}
        result = call(*args, **options)
        self.watch(Operation(call, args, options, result))
        return result
