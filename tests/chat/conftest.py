"""Sessions with tiny trained runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.chat.session import Session


@pytest.fixture
def session(trained: Callable[[str], Path]) -> Callable[..., Session]:
    """``session(family, ...)``: a new conversation with one or two tiny runs."""
    from dialog.runs.load import load

    return lambda *families: Session([load(trained(family)) for family in families])
