"""Numbers, durations and hardware as text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")
"""Prefixes of powers of 1,000."""


def decimals(places: int) -> Callable[[float], str]:
    """Return a formatter with a fixed number of decimals, without a sign of 0; from ten million on,
    2.6e+20.
    """
    return lambda value: (f"{value:z,.{places}f}" if abs(value) < 1e7 else f"{value:.1e}").replace(
        "-", "−"
    )


def percent(value: float) -> str:
    """Format a fraction in [0, 1]: 41.2 %."""
    return f"{100 * value:.1f} %"


def count(value: float) -> str:
    """Format a whole number: 1,234,567."""
    return f"{value:,.0f}"


def general(value: float) -> str:
    """Format a number of unknown magnitude with four significant digits."""
    return f"{value:.4g}".replace("-", "−")


def magnitude(value: float, unit: str = "") -> str:
    """Format a large number with three significant digits, a prefix and a unit: 6.20 M, 85.2
    GFLOPs.
    """
    scaled, prefix = with_prefix(value, 3)
    return f"{f'{scaled:#.3g}'.rstrip('.')} {prefix}{unit}".rstrip()


def with_prefix(value: float, digits: int) -> tuple[float, str]:
    """Round a number to significant digits; return it divided by a power of 1,000, and the prefix
    of the power.
    """
    scaled = float(f"{value:.{digits - 1}e}")
    power = 0
    while abs(scaled) >= 1000 and power < len(PREFIXES) - 1:
        scaled = scaled / 1000
        power = power + 1
    return scaled, PREFIXES[power]


def counted(number: int, noun: str) -> str:
    """Format a number with its noun: 1 turn, 2,000 turns."""
    return f"{count(number)} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Format seconds: 4.5 s, 45 s, 3 min 20 s, 2 h 05 min."""
    whole = round(seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60:02d} min"


def hardware(environment: Mapping[str, Any]) -> str:
    """Return GPU (if any), processor and number of cores of an environment.json."""
    gpu = environment.get("gpu", "none")
    processor = environment.get("cpu", "not recorded")
    cores = f", {environment['cores']} cores" if "cores" in environment else ""
    return ("" if gpu == "none" else f"{gpu}, ") + f"{processor}{cores}"
