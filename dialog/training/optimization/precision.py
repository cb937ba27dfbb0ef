"""Mixed precision that casts each weight once a step, and the one that fits the hardware."""

from __future__ import annotations

import logging
from typing import Literal, cast

import torch
from lightning.pytorch.plugins.precision import MixedPrecision

from dialog.config.components import hint
from dialog.errors import UserError

PRECISIONS = ("32-true", "bf16-mixed", "bf16-true", "16-mixed", "64-true")
ALIASES = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed", "64": "64-true"}
"""Lightning's older names of some."""

log = logging.getLogger("dialog")


class CachedMixedPrecision(MixedPrecision):
    """Lightning's mixed precision with autocast's weight cache on.

    Lightning 2.6 turns the cache off (its issue 21611), so a recurrent loop casts its weights at every step and keeps
    every copy for the backward pass.
    """

    def autocast_context_manager(self) -> torch.autocast:
        """One autocast for a whole step."""
        dtype = torch.bfloat16 if self.precision == "bf16-mixed" else torch.half
        return torch.autocast(self.device, dtype=dtype)


def precision_plugin(precision: str, device: str) -> CachedMixedPrecision | None:
    """The plugin for a mixed precision; for others Lightning's own will do."""
    if precision not in ("bf16-mixed", "16-mixed"):
        return None
    return CachedMixedPrecision(cast("Literal['16-mixed', 'bf16-mixed']", precision), device)


def device_of(accelerator: str) -> str:
    """The type of device that Lightning's ``accelerator`` means here."""
    if accelerator in ("gpu", "cuda") or (accelerator == "auto" and torch.cuda.is_available()):
        return "cuda"
    return "mps" if accelerator == "mps" or (accelerator == "auto" and torch.mps.is_available()) else "cpu"


def has_bfloat16(device: str) -> bool:
    """Whether a device computes in bfloat16 itself; where a CPU emulates it, it is many times slower than float32."""
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device == "cpu" and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def has_float16(device: str) -> bool:
    """Whether a device computes in float16 itself."""
    return device != "cpu" or bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())


def fitting(precision: str, accelerator: str) -> str:
    """``auto`` is bf16-mixed where the hardware has it, else 32-true; anything else is taken at its word.

    Raises:
        UserError: there is no such precision, or it is 16-true: small updates of float16 weights vanish, and small
            gradients too, as nothing scales them.
    """
    if precision == "auto":
        return "bf16-mixed" if has_bfloat16(device_of(accelerator)) else "32-true"
    meant = ALIASES.get(precision, precision)
    if meant == "16-true":
        raise UserError("trainer.precision: small gradients and updates vanish in 16-true; take 16-mixed or bf16-true")
    if meant not in PRECISIONS:
        raise UserError(f"trainer.precision: unknown precision {precision!r}{hint(precision, ('auto', *PRECISIONS))}")
    return meant


def warn_emulated(precision: str, accelerator: str) -> None:
    """Say that a precision will be slow here."""
    device = device_of(accelerator)
    for start, kind, there in (("bf16", "bfloat16", has_bfloat16), ("16", "float16", has_float16)):
        if precision.startswith(start) and not there(device):
            log.warning("precision %s: this %s only emulates %s, slowly; 32-true is faster", precision, device, kind)
