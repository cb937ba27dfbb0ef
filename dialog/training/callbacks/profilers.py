"""Profilers that write into the run folder."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch.profilers import AdvancedProfiler, Profiler, PyTorchProfiler, SimpleProfiler
from torch.profiler import schedule

from dialog.config.components import Family, build


class OperatorProfiler(PyTorchProfiler):
    """Profiles operators of five training steps; Lightning's class would replace them by the last
    validation's.
    """

    STEP_FUNCTIONS = frozenset({"training_step"})  # type: ignore[assignment]  # a set in Lightning, which does not change it


def operators(dirpath: Path, filename: str) -> Profiler:
    """Return a profiler of training steps 4 to 8: operators by cost, and a trace."""
    steps = schedule(wait=2, warmup=1, active=5, repeat=1)
    return OperatorProfiler(
        dirpath=dirpath, filename=filename, row_limit=40, schedule=steps, acc_events=True
    )


PROFILERS: Family[Profiler] = Family(
    "profiler",
    {"simple": SimpleProfiler, "advanced": AdvancedProfiler, "pytorch": operators},
    runtime=("dirpath", "filename"),
)
"""Time per hook, per Python function, per operator."""


def build_profiler(name: str | None, folder: Path) -> Profiler | None:
    """Return a profiler that writes ``profile/fit-<name>.txt``; pytorch also a trace for Chrome or
    Perfetto.
    """
    if name is None:
        return None
    return build(PROFILERS, {"name": name}, dirpath=folder / "profile", filename=name)
