"""Where a run's time goes, written into its folder."""

from __future__ import annotations

from pathlib import Path

from lightning.pytorch.profilers import AdvancedProfiler, Profiler, PyTorchProfiler, SimpleProfiler
from torch.profiler import schedule

from dialog.config.components import Family, build


class OperatorProfiler(PyTorchProfiler):
    """Operators of five training steps; Lightning's own would let those of the last validation take their place."""

    STEP_FUNCTIONS = frozenset({"training_step"})  # type: ignore[assignment]  # Lightning's is a set, and never changed


def operators(dirpath: Path, filename: str) -> Profiler:
    """The operators of the fourth to the eighth training step, the dearest first, and their trace."""
    steps = schedule(wait=2, warmup=1, active=5, repeat=1)
    return OperatorProfiler(dirpath=dirpath, filename=filename, row_limit=40, schedule=steps, acc_events=True)


PROFILERS: Family[Profiler] = Family(
    "profiler",
    {"simple": SimpleProfiler, "advanced": AdvancedProfiler, "pytorch": operators},
    runtime=("dirpath", "filename"),
)
"""Time of each hook; of each Python function; of each operator."""


def build_profiler(name: str | None, folder: Path) -> Profiler | None:
    """The profiler of a name, which writes ``profile/fit-<name>.txt``; pytorch a trace for Chrome or Perfetto too."""
    if name is None:
        return None
    return build(PROFILERS, {"name": name}, dirpath=folder / "profile", filename=name)
