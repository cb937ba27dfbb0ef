"""Searches that users choose: the search inside another one, its candidates and its seed."""

from __future__ import annotations

from typing import Any

from dialog.config.components import Component, accepts
from dialog.generation.searches.family import SEARCHES
from dialog.generation.searches.rows import RowSearch

N_BEST_WIDTH = 5
"""Smallest width of the beam search that replaces a search with a single candidate."""


def argument(search: Component, name: str) -> Any:
    """Return an argument of a search, or its default."""
    return search.get(name, SEARCHES.arguments(search["name"])[name].default)


def innermost(search: Component) -> Component:
    """Return the search whose candidates a search like ``mmi`` ranks; for another search, the
    search itself.
    """
    while accepts(SEARCHES, search, "search"):
        search = argument(search, "search")
    return search


def with_innermost(search: Component, inner: Component) -> Component:
    """Return a search with another innermost one."""
    if not accepts(SEARCHES, search, "search"):
        return inner
    return {**search, "search": with_innermost(argument(search, "search"), inner)}


def has_rows(search: Component) -> bool:
    """Return True if the candidates of a search are independent rows, see `RowSearch`."""
    kind = SEARCHES.constructor(search["name"])
    return isinstance(kind, type) and issubclass(kind, RowSearch)


def draws(search: Component) -> bool:
    """Return True if a search draws tokens at random."""
    return accepts(SEARCHES, innermost(search), "seed")


def with_next_seed(search: Component, attempt: int) -> Component:
    """Return a search that draws with a seed of its own for each attempt; the first attempt, 0, has
    the search's.
    """
    inner = innermost(search)
    return (
        with_innermost(search, {**inner, "seed": argument(inner, "seed") + attempt})
        if attempt
        else search
    )


def has_candidates(search: Component) -> bool:
    """Return True if a search can return several responses."""
    return accepts(SEARCHES, innermost(search), "candidates")


def with_candidates(search: Component, count: int) -> Component:
    """Return a search with at least ``count`` candidates; beam search replaces one that has a
    single candidate.
    """
    inner = innermost(search)
    if not has_candidates(search):
        return with_innermost(
            search, {"name": "beam", "width": max(count, N_BEST_WIDTH), "candidates": count}
        )
    count = max(count, argument(inner, "candidates"))
    wide = {**inner, "candidates": count}
    if accepts(SEARCHES, inner, "width"):
        groups = argument(inner, "groups") if accepts(SEARCHES, inner, "groups") else 1
        wide["width"] = max(argument(inner, "width"), -(-count // groups) * groups)
    return with_innermost(search, wide)
