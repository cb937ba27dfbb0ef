"""Precisions of training: names, hardware support, and mixed precision that casts each weight once
a step.
"""

from __future__ import annotations

import logging
import platform
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import torch
from lightning.pytorch.plugins.precision import MixedPrecision

from dialog.atomic import write_json
from dialog.config.components import hint
from dialog.errors import UserError
from dialog.json_files import read_json
from dialog.models.kernels.private_operators import has_onednn_bfloat16, has_onednn_float16
from dialog.paths import cache
from dialog.training.optimization.allocator import bound_kernel_caches

PRECISIONS = ("32-true", "bf16-mixed", "bf16-true", "16-mixed", "64-true")
ALIASES = {"32": "32-true", "bf16": "bf16-mixed", "16": "16-mixed", "64": "64-true"}
"""Lightning's older names."""

WORTH_CASTING = 1.5
"""Speed of matrix products in bfloat16, relative to float32, from which mixed precision makes up
for its casts.
"""

MATMUL_PRECISIONS = ("highest", "high", "medium")

log = logging.getLogger("dialog")


class CachedMixedPrecision(MixedPrecision):
    """Lightning's mixed precision with autocast's weight cache enabled.

    Lightning 2.6 disables the cache (its issue 21611), so a recurrent loop would cast its weights
    at every token and keep every copy for the backward pass.
    """

    def autocast_context_manager(self) -> torch.autocast:
        """Return the autocast context of a whole step."""
        dtype = torch.bfloat16 if self.precision == "bf16-mixed" else torch.half
        return torch.autocast(self.device, dtype=dtype)


def precision_plugin(precision: str, device: str) -> CachedMixedPrecision | None:
    """Return the plugin of a mixed precision, or None where Lightning's own is used."""
    if precision not in ("bf16-mixed", "16-mixed"):
        return None
    return CachedMixedPrecision(cast("Literal['16-mixed', 'bf16-mixed']", precision), device)


def device_of(accelerator: str) -> str:
    """Return the device type that Lightning's ``accelerator`` selects on this machine."""
    if accelerator in ("gpu", "cuda") or (accelerator == "auto" and torch.cuda.is_available()):
        return "cuda"
    return (
        "mps"
        if accelerator == "mps" or (accelerator == "auto" and torch.mps.is_available())
        else "cpu"
    )


def has_bfloat16(device: str) -> bool:
    """Return whether a device has bfloat16 in hardware; emulated on a CPU it is many times slower
    than float32.
    """
    if device == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return device == "cpu" and has_onednn_bfloat16()


def has_float16(device: str) -> bool:
    """Return whether a device has float16 in hardware."""
    return device != "cpu" or has_onednn_float16()


def fitting(precision: str, accelerator: str) -> str:
    """Resolve ``auto``, the faster of bf16-mixed and 32-true on this hardware, and older names.

    Raises:
        UserError: unknown precision, or 16-true, in which small updates vanish, and small gradients
            too, for lack of a gradient scaler.
    """
    if precision == "auto":
        return faster(device_of(accelerator))
    resolved = ALIASES.get(precision, precision)
    if resolved == "16-true":
        raise UserError(
            "trainer.precision: small gradients and updates vanish in 16-true; use 16-mixed or"
            " bf16-true"
        )
    if resolved not in PRECISIONS:
        raise UserError(
            "trainer.precision: unknown precision"
            f" {precision!r}{hint(precision, ('auto', *PRECISIONS))}"
        )
    return resolved


def faster(device: str) -> str:
    """Return the faster of bf16-mixed and 32-true on a device, and log the reason.

    A GPU with bfloat16 in hardware is faster in it. For a CPU, products of both types are measured:
    one with AMX computes bfloat16 7 times as fast as float32, one with AVX512-BF16 alone can be
    slower.
    """
    if not has_bfloat16(device):
        precision = "32-true"
        reason = f"this {device} has no bfloat16"
    elif device != "cpu":
        precision = "bf16-mixed"
        reason = f"this {device} has bfloat16"
    else:
        speed = matmul_speed()
        ratio = speed.bfloat16 / speed.float32
        precision = "bf16-mixed" if ratio > WORTH_CASTING else "32-true"
        reason = (
            f"matrix products in bfloat16 run at {ratio:.1f} times the speed of float32 on this"
            " processor"
        )
    log.info("precision: %s (%s)", precision, reason)
    return precision


def warn_emulated(precision: str, accelerator: str) -> None:
    """Warn of a precision that the hardware only emulates."""
    device = device_of(accelerator)
    for prefix, kind, in_hardware in (
        ("bf16", "bfloat16", has_bfloat16),
        ("16", "float16", has_float16),
    ):
        if precision.startswith(prefix) and not in_hardware(device):
            log.warning(
                "precision %s: this %s emulates %s, which is slow; 32-true is faster",
                precision,
                device,
                kind,
            )


def use_matmul_precision(name: str) -> None:
    """Set the precision of float32 matrix products of this process.

    Raises:
        UserError: unknown name.
    """
    if name not in MATMUL_PRECISIONS:
        raise UserError(
            f"float32_matmul_precision must be one of {', '.join(MATMUL_PRECISIONS)}, not {name!r}"
        )
    torch.set_float32_matmul_precision(name)


# ------------------------------------------------------------------ speed of matrix products


SIZES = (512, 512, 2048)
"""Rows, inner size and columns of the products: the gates of an LSTM of 512 over a batch."""
ROUNDS = 8
SECONDS = 0.01
"""Time spent on each type in a round."""


class MatmulSpeed(NamedTuple):
    """FLOP/s of matrix products by type."""

    float32: float
    bfloat16: float


def matmul_speed() -> MatmulSpeed:
    """Return the speed of this processor; measured if the cache lacks it for this processor,
    threads and torch.
    """
    path = cache() / "matmul-speed.json"
    name = f"{processor()}, {torch.get_num_threads()} threads, {torch.__version__}"
    kept: dict[str, Any] = {}
    with suppress(UserError):  # missing or damaged
        kept = read_json(path)
    with suppress(KeyError, TypeError):
        return MatmulSpeed(**kept[name])
    bound_kernel_caches()  # these may be the first products of a process that will train
    speed = _measure()
    with suppress(OSError):  # without a cache it is measured each time
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {**kept, name: speed._asdict()})
    return speed


def _measure() -> MatmulSpeed:
    """Measure the types in turns, so that a burst of other work does not slow only one; the highest
    speeds count.
    """
    rounds = [MatmulSpeed(_speed(torch.float32), _speed(torch.bfloat16)) for _ in range(ROUNDS)]
    return MatmulSpeed(*map(max, zip(*rounds, strict=True)))


def _speed(dtype: torch.dtype) -> float:
    """Return FLOP/s of the fastest product of one type."""
    rows, inner, columns = SIZES
    left = torch.ones(rows, inner, dtype=dtype)
    right = torch.ones(inner, columns, dtype=dtype)
    torch.mm(left, right)  # the first one prepares the kernel
    best = float("inf")
    until = time.perf_counter() + SECONDS
    while (began := time.perf_counter()) < until:
        torch.mm(left, right)
        best = min(best, time.perf_counter() - began)
    return 2 * rows * inner * columns / best


def processor() -> str:
    """Return the model name of the processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").split("\n"):
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
