"""A stand-in for a GPU that needs none: tensors on the meta device, which have no values, and modes
that count what a GPU would do.

`Launches` counts kernels, values that the host reads, and casts; `MetaAutocast` is autocast by the
rules of CUDA. Attention and recurrent layers, which torch composes of many operators on the meta
device, count as the few kernels that they are on a GPU. The counts of a training step were compared
with those of fake CUDA tensors, which need a compiled device guard: LSTM 2,082 and 2,079,
Transformer 921 and 921.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

VIEWS = frozenset(
    [
        "_reshape_alias",
        "_unsafe_view",
        "alias",
        "as_strided",
        "chunk",
        "detach",
        "diagonal",
        "empty",
        "empty_like",
        "empty_strided",
        "expand",
        "lift_fresh",
        "new_empty",
        "new_empty_strided",
        "permute",
        "select",
        "slice",
        "split",
        "split_with_sizes",
        "squeeze",
        "t",
        "transpose",
        "unbind",
        "unfold",
        "unsqueeze",
        "view",
    ]
)
"""Operators that launch nothing."""
READS = frozenset(
    ["_local_scalar_dense", "_unique2", "equal", "is_nonzero", "item", "masked_select", "nonzero"]
)
"""Operators for whose result the host waits."""
TENSORS_OF_A_LAUNCH = 64
"""Pairs of tensors that one kernel of a ``_foreach`` operator handles."""

LOW = frozenset(
    [
        "__matmul__",
        "addbmm",
        "addmm",
        "addmv",
        "baddbmm",
        "bmm",
        "conv1d",
        "conv2d",
        "einsum",
        "linear",
        "matmul",
        "mm",
        "mv",
        "scaled_dot_product_attention",
    ]
)
FULL = frozenset(
    [
        "cosine_similarity",
        "exp",
        "expm1",
        "layer_norm",
        "log",
        "log1p",
        "logsumexp",
        "nll_loss",
        "norm",
        "pow",
        "__pow__",
        "reciprocal",
        "rsqrt",
        "softplus",
    ]
)
FULL_RESULT = frozenset(["cumprod", "cumsum", "log_softmax", "prod", "softmax", "sum"])
"""Functions that CUDA's autocast computes in half precision and in float32 (torch's
``autocast_mode.h``); the last ones convert while they compute.
"""
LAYERS = frozenset(("gru", "lstm", "lstm.input"))


class Launches(TorchDispatchMode):
    """Counts of the operators that ran in it."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels = Counter[str]()
        self.casts = Counter[str]()
        """Among the kernels, those that only convert a type."""
        self.reads = Counter[str]()
        self.uploads = Counter[str]()
        """Values of host memory that a kernel had to wait for."""

    @property
    def total(self) -> int:
        return self.kernels.total()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = func._schema.name.partition("::")[2]
        kwargs = kwargs or {}
        inputs = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        on_device = [tensor for tensor in inputs if tensor.is_meta]
        is_index = name in ("index", "index_put", "index_put_")
        leaves_device = bool(on_device) and str(kwargs.get("device", "")) == "cpu"
        if on_device and (
            name in READS
            or leaves_device
            or (is_index and any(each is not None and each.dtype is torch.bool for each in args[1]))
        ):
            self.reads[name] += 1
            if name in ("_local_scalar_dense", "item"):
                return 1 if not args[0].is_floating_point() else 1.0
        result = func(*args, **kwargs)
        outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        outputs_on_device = [tensor for tensor in outputs if tensor.is_meta]
        on_host = [tensor for tensor in inputs if tensor.dim() and not tensor.is_meta]
        if on_host and outputs_on_device:
            self.uploads[name] += 1
        if name in VIEWS or not (on_device or outputs_on_device):
            return result
        launches = 1
        if name.startswith("_foreach"):
            launches = math.ceil(len(args[0]) / TENSORS_OF_A_LAUNCH)
        self.kernels[name] += launches
        if (name == "_to_copy" and args[0].dtype is not result.dtype) or (
            name == "copy_" and args[0].dtype is not args[1].dtype
        ):
            self.casts[name] += 1
        return result


class _Attention(torch.autograd.Function):
    """Kernels of a fused attention: one forward, two backward, and one that makes a bias of a
    boolean mask.
    """

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> Tensor:
        ctx.shapes = keys, values
        if mask is not None and mask.dtype is torch.bool:
            mask.to(query.dtype)
        return query.new_zeros(*query.shape[:-1], values.shape[-1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        gradient.sum()
        keys, values = ctx.shapes
        of_query = torch.zeros_like(gradient)
        return of_query, torch.empty_like(keys), torch.empty_like(values), None


class _Layer(torch.autograd.Function):
    """A recurrent layer, which counts as one kernel in each direction."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, count: int, *tensors: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """States of all steps, and the last hidden and cell state."""
        ctx.tensors = inputs, *tensors
        hidden = tensors[0]
        size = hidden.shape[-1]
        outputs = inputs.new_zeros(*inputs.shape[:-1], size)
        return outputs, torch.empty_like(hidden), torch.empty_like(tensors[count - 1])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        inputs, *tensors = (torch.empty_like(tensor) for tensor in ctx.tensors)
        gradients[0].clone()
        return inputs, None, *tensors


class MetaAutocast(TorchFunctionMode):
    """Attention and recurrent layers as single kernels, and autocast of CUDA if ``dtype`` is given;
    casts of leaves that need a gradient are kept, as its cache does.
    """

    def __init__(self, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        self.dtype = dtype
        self.enabled = dtype is not None
        self.attentions = Counter[str]()
        self.cells = set[torch.dtype]()
        """Types of the cell states of recurrent layers."""
        self._cache: dict[int, tuple[Tensor, Tensor]] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.__name__
        if self.enabled and name in LOW:
            args, kwargs = tree_map(self._low, (args, kwargs))
        elif self.enabled and name in FULL:
            args, kwargs = tree_map(_full, (args, kwargs))
        elif self.enabled and name in FULL_RESULT and kwargs.get("dtype") is None:
            halves = [x for x in args if isinstance(x, Tensor) and _is_half(x)]
            kwargs = kwargs | ({"dtype": torch.float32} if halves else {})
        if name == "scaled_dot_product_attention":
            return self._attend(*args, **kwargs)
        if name == "tolist" and args[0].is_meta:
            args[0].flatten()[0].item()
            return torch.zeros(args[0].shape, dtype=args[0].dtype).tolist()
        if name in LAYERS:
            return self._run_layer(name, *args)
        return func(*args, **kwargs)

    def _low(self, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.dtype is not torch.float32:
            return value
        if not (value.is_leaf and value.requires_grad and torch.is_grad_enabled()):
            return value.to(self.dtype)
        if id(value) not in self._cache:
            self._cache[id(value)] = value, value.to(self.dtype)
        return self._cache[id(value)][1]

    def _attend(
        self,
        query: Tensor,
        keys: Tensor,
        values: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **_: Any,
    ) -> Tensor:
        kind = "mask" if attn_mask is not None else "causal" if is_causal else "none"
        self.attentions[kind] += 1
        result: Tensor = _Attention.apply(query, keys, values, attn_mask)
        return result

    def _run_layer(self, name: str, inputs: Tensor, states: Any, weights: Any, *_: Any) -> Any:
        states = (states,) if isinstance(states, Tensor) else tuple(states)
        if self.enabled:  # cuDNN's weights are copied to one buffer
            inputs, *states = (self._low(each) for each in (inputs, *states))
            weights = [each.to(self.dtype) for each in weights]
        self.cells.add(states[-1].dtype)
        outputs, *last = _Layer.apply(inputs, len(states), *states, *weights)
        return (outputs, *last) if len(states) == 2 else (outputs, last[0])

    def disabled(self) -> ExitStack:
        """The context of ``torch.autocast(.., enabled=False)``."""
        stack = ExitStack()
        before = self.enabled
        self.enabled = False
        stack.callback(setattr, self, "enabled", before)
        return stack


def _full(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and _is_half(value) else value


def _is_half(tensor: Tensor) -> bool:
    return tensor.dtype in (torch.bfloat16, torch.float16)


@contextmanager
def meta_gpu(dtype: torch.dtype | None = None) -> Iterator[MetaAutocast]:
    """Treat the meta device as a GPU, in autocast of a ``dtype`` if it is given."""
    mode = MetaAutocast(dtype)
    enabled = torch.is_autocast_enabled
    lowest = torch.get_autocast_dtype
    available = torch.amp.is_autocast_available
    autocast: Callable[..., Any] = torch.autocast

    def turned(device: str, *args: Any, **kwargs: Any) -> Any:
        if device != "meta":
            return autocast(device, *args, **kwargs)
        assert kwargs == {"enabled": False}
        return mode.disabled()

    with (
        mock.patch.object(
            torch,
            "is_autocast_enabled",
            lambda device: mode.enabled if device == "meta" else enabled(device),
        ),
        mock.patch.object(
            torch,
            "get_autocast_dtype",
            lambda device: mode.dtype if device == "meta" else lowest(device),
        ),
        mock.patch.object(
            torch.amp,
            "is_autocast_available",
            lambda device: device == "meta" or available(device),
        ),
        mock.patch.object(torch, "autocast", turned),
        mode,
    ):
        yield mode
