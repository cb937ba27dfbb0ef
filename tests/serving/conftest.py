"""A service of a tiny run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from client import Client, serving

from dialog.runs.load import load
from dialog.runs.run import Run
from dialog.serving.app import Service


@pytest.fixture(scope="session")
def run(trained: Callable[[str], Path]) -> Run:
    return load(trained("lstm"), device="cpu")


@pytest.fixture
def client(run: Run) -> Iterator[Client]:
    with serving(Service(run, hosts=("127.0.0.1",))) as client:
        yield client
