"""Tokens of a vocabulary as a trie of the classes of their bytes.

Shapes: V vocabulary, G groups of tokens whose bytes have the same classes, M nodes, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class TokenTrie:
    """Trie of the groups of tokens, which are numbered in the order of their classes; node 0 is the
    empty beginning.
    """

    classes: np.ndarray  # [M], of the last byte; unused for node 0
    parent: np.ndarray  # [M]
    levels: list[np.ndarray]  # nodes by depth
    ends: np.ndarray  # [M], the group that ends here, -1 = none
    low: np.ndarray  # [M], first group below a node
    high: np.ndarray  # [M], the one behind the last
    children: np.ndarray  # [M - 1], nodes by parent
    child_start: np.ndarray  # [M + 1], where those of a parent begin
    group: np.ndarray  # [V], of each token
    tokens: np.ndarray  # [V], by group
    token_start: np.ndarray  # [G + 1], where those of a group begin

    @classmethod
    def build(cls, pieces: Sequence[bytes], classes: bytes) -> TokenTrie:
        """Build the trie of the bytes of each token."""
        texts = [piece.translate(classes) for piece in pieces]
        groups = {text: number for number, text in enumerate(sorted(set(texts)))}
        parent = [0]
        last_class = [0]
        ends = [-1]
        low = [0]
        depth = [0]
        path = [0]
        previous = b""
        for text, number in groups.items():
            common = 0
            while common < min(len(text), len(previous)) and text[common] == previous[common]:
                common += 1
            del path[common + 1 :]
            for position in range(common, len(text)):
                parent.append(path[-1])
                last_class.append(text[position])
                ends.append(-1)
                low.append(number)
                depth.append(position + 1)
                path.append(len(parent) - 1)
            ends[path[-1]] = number
            previous = text
        high = [0] * len(parent)
        for node in range(len(parent) - 1, -1, -1):
            high[node] = max(high[node], ends[node] + 1)
            high[parent[node]] = max(high[parent[node]], high[node])
        parents = np.array(parent)
        depths = np.array(depth)
        by_depth = np.argsort(depths, kind="stable")
        group = np.array([groups[text] for text in texts])
        return cls(
            np.array(last_class),
            parents,
            np.split(by_depth, np.searchsorted(depths[by_depth], np.arange(1, depths.max() + 1))),
            np.array(ends),
            np.array(low),
            np.array(high),
            np.argsort(parents[1:], kind="stable") + 1,
            np.searchsorted(np.sort(parents[1:]), np.arange(len(parents) + 1)),
            group,
            np.argsort(group, kind="stable"),
            np.searchsorted(np.sort(group), np.arange(len(groups) + 1)),
        )
