"""Recipes whose parts do not fit each other."""

from __future__ import annotations

import pytest

from dialog.config.compose import compose
from dialog.errors import UserError
from dialog.runs.check import check_recipe

HRED = (
    "model.encoder={name: hierarchical, tokens: {name: lstm, size: 8}, turns: {name: lstm,"
    " size: 8}}"
)


@pytest.mark.parametrize(
    ("override", "part"),
    [(HRED, "hierarchical"), ("model.objectives=[{name: reverse}]", "reverse")],
)
def test_parts_that_read_roles_need_the_layout_with_roles(override: str, part: str) -> None:
    with pytest.raises(
        UserError, match=f"data.layout: {part} needs the roles of turns; set data.layout=roles"
    ):
        check_recipe(
            compose("quickstart/lstm_bahdanau", ["data.layout=separated", override]).recipe
        )
