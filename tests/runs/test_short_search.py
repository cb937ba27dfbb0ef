"""Searches chosen without their section: `search=beam5`, `temperature=0.7`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialog.errors import UserError
from dialog.runs.load import load

CONTEXT = ["Hello .", "What will you have ?"]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["search=beam5"], {"name": "beam", "width": 5}),
        (["search=sampling", "temperature=0.7"], {"name": "sampling", "temperature": 0.7}),
        (["temperature=0.7", "top_p=0.9"], {"name": "sampling", "temperature": 0.7, "top_p": 0.9}),
        (["generation=beam5", "width=6"], {"name": "beam", "width": 6}),
    ],
)
def test_on_the_command_line(
    trained: Callable[[str], Path], overrides: list[str], expected: dict[str, object]
) -> None:
    run = load(trained("transformer"), overrides=[*overrides, "max_length=7"])
    assert expected.items() <= run.recipe.generation.search.items()
    assert run.recipe.generation.max_length == 7


def test_in_python(trained: Callable[[str], Path]) -> None:
    run = load(trained("transformer"))
    named = run.respond(CONTEXT, search="beam5", max_length=4)
    beam = {
        "name": "beam",
        "width": 5,
        "candidates": 5,
        "normalisation": "average",
        "max_length": 4,
    }
    assert len(named.candidates) == 5
    assert [c.text for c in named.candidates] == [
        c.text for c in run.respond(CONTEXT, beam).candidates
    ]
    assert run.respond(CONTEXT, temperature=0.1).text
    assert run.respond_batch([CONTEXT], temperature=0.1)[0].text
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"search": "beam6"}, "beam6"),
        ({"temprature": 1.0}, "temprature"),
        ({"max_length": "long"}, "max_length"),
    ]
    for arguments, named_there in wrong:
        with pytest.raises(UserError, match=named_there):
            run.respond(CONTEXT, **arguments)
