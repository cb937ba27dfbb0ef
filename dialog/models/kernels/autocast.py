"""Autocast on the device of a tensor."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor


def autocast_type(tensor: Tensor) -> torch.dtype | None:
    """Return the type in which autocast multiplies on the device of a tensor; None without
    autocast.
    """
    device = tensor.device.type
    enabled = torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
    return torch.get_autocast_dtype(device) if enabled else None


def lowered(tensor: Tensor) -> Tensor:
    """Return a tensor as autocast multiplies it, cast once for several products."""
    dtype = autocast_type(tensor)
    return tensor if dtype is None or tensor.dtype is torch.float64 else tensor.to(dtype)


def without_autocast(tensor: Tensor) -> AbstractContextManager[object]:
    """Return a context in which products on the device of a tensor keep their precision; the
    device ``meta`` has no autocast.
    """
    device = tensor.device.type
    available = torch.amp.is_autocast_available(device)
    return torch.autocast(device, enabled=False) if available else nullcontext()
