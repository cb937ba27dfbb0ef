"""Adjusted p-values over all pairs and metrics of a report: a wrong decision anywhere in it has at
most the probability of the level.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

SHARE = 0.5
"""Part of the level of a decided primary hypothesis that goes to those of other pairs; the rest
goes to the secondary hypotheses of its own pair.

With 1, secondary metrics are tested after all pairs are decided, and hardly ever found; with 0, the
other pairs gain nothing (simulated in `benchmarks/decisions.py`).
"""


class NullHypothesis(NamedTuple):
    """Equality of two contenders in a metric on a subset of the test set."""

    a: str
    b: str
    metric: str
    subset: str = "all"

    @property
    def pair(self) -> tuple[str, str]:
        """Both contenders."""
        return self.a, self.b


def adjusted(
    primary: Sequence[float], secondary: Sequence[Sequence[float]], share: float = SHARE
) -> tuple[list[float], list[list[float]]]:
    """Return adjusted p-values of the primary hypothesis of each pair, and of the secondary ones of
    each pair; those up to alpha are rejected.

    A graphical Bonferroni procedure, for any dependence: each primary hypothesis begins with an
    equal part of the level. A rejected one passes it on, `share` to the other primary hypotheses
    and the rest to the secondary ones of its pair, which are tested by Holm's procedure; once all
    are rejected, their level goes to the primary hypotheses of other pairs. One pair: the primary
    hypothesis at the whole level, then the secondary ones by Holm's procedure.
    Bretz, Maurer, Brannath and Posch (2009), Statistics in Medicine 28.
    """
    if not primary:
        return [], []
    pairs = len(primary)
    # node i: the primary hypothesis of pair i; node pairs + i: its secondary hypotheses
    members = [[(p, 0)] for p in primary]
    members += [sorted((p, place) for place, p in enumerate(group)) for group in secondary]
    adjusted_p = [[1.0] * len(group) for group in members]
    weights = np.array([1 / pairs] * pairs + [0.0] * pairs)
    edges = np.zeros((2 * pairs, 2 * pairs))
    for pair, group in enumerate(secondary):
        own = 0.0 if not group else 1 - share if pairs > 1 else 1.0
        edges[pair, pair + pairs] = own
        others = np.arange(pairs) != pair
        edges[pair, :pairs][others] = (1 - own) / max(1, pairs - 1)
        edges[pair + pairs, :pairs][others] = 1 / max(1, pairs - 1)
    largest = 0.0
    while True:
        costs = [
            len(group) * group[0][0] / weight if group and weight > 0 else math.inf
            for group, weight in zip(members, weights, strict=True)
        ]
        node = int(np.argmin(costs))
        largest = max(largest, min(1.0, costs[node]))
        if largest >= 1:
            return [p for (p,) in adjusted_p[:pairs]], adjusted_p[pairs:]
        adjusted_p[node][members[node].pop(0)[1]] = largest
        if not members[node]:
            weights, edges = _without(node, weights, edges)


def _without(node: int, weights: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return weights and edges after a node has passed its weight on, along the edges through
    it.
    """
    passed = weights + weights[node] * edges[node]
    passed[node] = 0
    loops = edges[:, node] * edges[node]
    through = edges + np.outer(edges[:, node], edges[node])
    np.fill_diagonal(through, 0)
    through[node] = 0
    through[:, node] = 0
    return passed, through / np.where(loops < 1, 1 - loops, np.inf)[:, None]
