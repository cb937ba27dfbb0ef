"""Choose validation examples by the data alone: neither the seed nor the tokenizer of a run changes
them.
"""

from __future__ import annotations

import random

from dialog.data.store.store import Store

DRAWN = 4
"""Number of examples whose maps are drawn."""
CANDIDATES = 32
"""Number of examples of which those with longer responses are drawn."""
MEASURED = 32
"""Number of examples that are measured."""
FIRST = 10_000
"""Number of rows of the split that are chosen from, so that their text is read quickly."""


def rows_to_draw(store: Store) -> list[int]:
    """Return `DRAWN` rows of which at least as many others have shorter responses, in bytes, as
    longer ones.
    """
    rows = _sample(store, CANDIDATES)
    sizes = {row: store.target_bytes([row]) for row in rows}
    median = sorted(sizes.values())[len(rows) // 2] if rows else 0
    return sorted([row for row in rows if sizes[row] >= median][:DRAWN])


def rows_to_measure(store: Store) -> list[int]:
    """Return rows without regard to their length."""
    return _sample(store, MEASURED)


def _sample(store: Store, count: int) -> list[int]:
    first = min(len(store), FIRST)
    return random.Random(0).sample(range(first), min(count, first))
