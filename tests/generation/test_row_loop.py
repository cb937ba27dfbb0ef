"""Rows that begin and end at any token have the responses that they have alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dialog.generation.row_loop import PATIENCE, SHARE, Row, RowLoop, candidate_rows
from dialog.generation.searches.rows import RowSearch
from dialog.runs.load import load

SEARCHES: list[dict[str, Any]] = [
    {"name": "greedy"},
    {"name": "sampling", "temperature": 1.5, "seed": 3},
    {"name": "greedy", "max_length": 2},
    {"name": "sampling", "temperature": 1.2, "top_p": 0.9, "candidates": 3},
    {"name": "greedy", "min_length": 4, "no_repeat_ngram": 2, "frequency_penalty": 1.0},
    {"name": "sampling", "required": ["kitchen"], "banned": ["the"], "max_length": 12},
    {"name": "greedy", "prefix": "I", "block_context_ngram": 2},
]
CONTEXTS = [
    ["Where is Anna ?"],
    ["Hi .", "Hello . How are you ?", "Fine . And you ?"],
    ["Anna has two apples .", "Fine .", "How many ?"],
]


@pytest.mark.parametrize("family", ["lstm", "transformer"])
def test_rows_that_join_and_leave(family: str, trained: Callable[[str], Path]) -> None:
    """Every search with every context, of which one joins before each token of the others."""
    responder = load(trained(family), device="cpu").responder
    loop = responder.row_loop()
    waiting = [(context, search) for search in SEARCHES for context in CONTEXTS]
    expected = [responder.respond([context], search, ids=["x"])[0] for context, search in waiting]
    begun: list[list[Row]] = []
    sizes = []
    while len(begun) < len(waiting) or loop.rows:
        if len(begun) < len(waiting):
            context, component = waiting[len(begun)]
            search = responder.search(component)
            assert isinstance(search, RowSearch)
            source, _ = responder.encode(responder.example(context))
            begun.append(candidate_rows(search, source, "x"))
            loop.begin(begun[-1])
        loop.advance()
        sizes.append(len(loop.rows))
    assert max(sizes) > 5
    for rows, alone in zip(begun, expected, strict=True):
        together = [row.hypothesis() for row in rows]
        assert all(together)
        texts = {responder.candidate(reply).ids for reply in together if reply}
        assert texts == {candidate.ids for candidate in alone}
        scores = sorted(reply.score for reply in together if reply)
        assert scores == pytest.approx(sorted(each.score for each in alone), abs=1e-4)


def test_a_row_that_is_ended_leaves_and_others_stay(trained: Callable[[str], Path]) -> None:
    responder = load(trained("lstm"), device="cpu").responder
    search = responder.search({"name": "greedy", "min_length": 8, "max_length": 8})
    assert isinstance(search, RowSearch)
    loop: RowLoop = responder.row_loop()
    rows = [candidate_rows(search, [5, 6, 7], "")[0] for _ in range(2)]
    loop.begin(rows)
    loop.advance()
    rows[0].ended = True
    while loop.rows:
        loop.advance()
    assert len(rows[0].tokens) == 2
    assert rows[1].hypothesis() is not None
    assert len(rows[1].response) == 8


def test_new_rows_have_a_token_at_once_and_few_wait_to_join(trained: Callable[[str], Path]) -> None:
    responder = load(trained("transformer"), device="cpu").responder
    search = responder.search({"name": "greedy", "min_length": 20, "max_length": 20})
    assert isinstance(search, RowSearch)
    loop = responder.row_loop()
    rows = [candidate_rows(search, [5, 6, 7], "")[0] for _ in range(SHARE + 2)]
    loop.begin(rows[:-1])
    loop.advance()
    loop.begin(rows[-1:])
    assert [len(row.tokens) for row in rows] == [2] * (SHARE + 1) + [1]
    for _ in range(PATIENCE):
        loop.advance()
    assert len(rows[-1].tokens) == 1
    loop.advance()
    assert len(rows[-1].tokens) == 2
    assert [*rows[0].tokens[:2]] == rows[-1].tokens
