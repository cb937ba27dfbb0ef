"""Software, hardware and git state of a run."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime
from importlib.metadata import version
from typing import Any

import torch

from dialog.training.optimization.matmul_speed import processor
from dialog.version import __version__


def environment() -> dict[str, Any]:
    """Return versions, hardware, git state and time; neither user data nor secrets."""
    packages = ("torch", "lightning", "tokenizers", "omegaconf", "numpy", "wandb")
    return {
        "dialog": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in packages},
        "cpu": processor(),
        "cores": os.cpu_count() or 0,
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "none",
        "git": _git(),
        "time": datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def _git() -> str:
    """Return the commit of the working folder, with -dirty if it has changes."""
    try:
        described = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=5,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return described.stdout.strip() or "unknown"
