"""Fixtures of run folders."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import dialog


@pytest.fixture(scope="module", params=["lstm", "transformer"])
def run(request: pytest.FixtureRequest, trained: Callable[[str], Path]) -> dialog.Run:
    return dialog.load(trained(request.param))


@pytest.fixture
def copied(trained: Callable[[str], Path], tmp_path: Path) -> Path:
    """A run folder that a test may change."""
    return Path(shutil.copytree(trained("transformer"), tmp_path / "copied"))
