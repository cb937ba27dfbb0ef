"""Recipes as text: a base, and what composing it gives.

The fixture ``lab`` has its group ``model: tiny``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from dialog.config.compose import compose
from dialog.config.schema import Recipe
from dialog.errors import UserError

BASE = "defaults: {data: builtin, model: tiny, optimizer: adamw_plateau}\n"
TINY = """embedding_size: 8
encoder: {name: lstm, size: 8, layers: 2}
decoder:
  name: lstm
  size: 8
  attention: {name: additive, size: 4}
dropout: 0.5
"""


def composed(text: str, *overrides: str) -> Recipe:
    Path("my.yaml").write_text(text, encoding="utf-8")
    return compose("my.yaml", overrides).recipe


def refused(text: str | bytes, *overrides: str) -> str:
    Path("my.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(UserError) as caught:
        compose("my.yaml", overrides)
    return str(caught.value)
