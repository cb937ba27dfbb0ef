"""Words that a response must not contain, found in its text.

Shapes: N rows, V vocabulary, A states of the automaton, R roots, G groups of tokens (see
    `TokenTrie`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dialog.generation.words.automaton import WordAutomaton
from dialog.generation.words.token_trie import TokenTrie

BLOCK = 512
"""States that are compared with their fallbacks together."""
MOST_LISTED = 128
"""Tokens of a state that are listed at most; others are marked in a row of the vocabulary, which
many states share.
"""


@dataclass(frozen=True)
class TokenSets:
    """A set of tokens for each state: a row of the vocabulary, and a list of others."""

    row: Tensor  # [A]
    rows: Tensor  # [rows, V + 1], True = in the set
    list_: Tensor  # [A]
    lists: Tensor  # [lists, longest], tokens; V in the places that are not used

    def __call__(self, states: Tensor) -> Tensor:
        """Return the tokens [N, V] of states [N], True = in the set."""
        chosen = self.rows.index_select(0, self.row[states])
        if self.lists.shape[1]:
            chosen.scatter_(1, self.lists.index_select(0, self.list_[states]), True)
        return chosen[:, :-1]

    def to(self, device: torch.device) -> TokenSets:
        """Return the sets on a device."""
        return TokenSets(*(getattr(self, item.name).to(device) for item in fields(self)))


@dataclass(frozen=True)
class BannedWords:
    """Tokens that complete a banned word in each state of a response, and the state after each
    token.

    The tables have what differs between a state and its fallback only, not a row of the vocabulary
    for each state. A token after which nothing but to complete a word is left counts as completing:
    a word that is one token.
    """

    fallback: Tensor  # [A]
    root: Tensor  # [A], number of the root at the end of the fallbacks
    longest: int  # most fallbacks of a state
    group: Tensor  # [V]
    after_root: Tensor  # [R, G], the state after a group of tokens
    # [pairs], state * G + group where the state after the group is not that of the fallback; sorted
    keys: Tensor
    after_key: Tensor  # [pairs]
    completing: TokenSets  # tokens that complete a word, with the boundary behind it
    completing_at_end: TokenSets  # the same if the text ends behind the token
    at_end: Tensor  # [A], True = a word is complete if the text ends here
    start: int

    @classmethod
    def build(cls, words: Sequence[str], pieces: Sequence[bytes]) -> BannedWords:
        """Build the tables for words and the bytes of each token of a vocabulary.

        Raises:
            ValueError: a word without a letter or digit.
        """
        return _Comparison(WordAutomaton.build(words, separate=False), pieces).banned_words()

    def after(self, states: Tensor, tokens: Tensor) -> Tensor:
        """Return the states after one more token of each row [N]."""
        groups = self.group[tokens]
        chain = [states]
        for _ in range(self.longest - 1):
            chain.append(self.fallback[chain[-1]])
        result = self.after_root[self.root[states], groups].long()
        for state in reversed(chain):
            keys = state * self.after_root.shape[1] + groups
            places = torch.searchsorted(self.keys, keys).clamp_max(len(self.keys) - 1)
            result = torch.where(self.keys[places] == keys, self.after_key[places].long(), result)
        return result

    def to(self, device: torch.device) -> BannedWords:
        """Return the tables on a device."""
        tables = {
            item.name: getattr(self, item.name).to(device)
            for item in fields(self)
            if isinstance(getattr(self, item.name), Tensor | TokenSets)
        }
        return replace(self, **tables)


class _Pairs(NamedTuple):
    """Groups of tokens after which the states of a state and of its fallback differ."""

    state: np.ndarray
    group: np.ndarray
    after: np.ndarray
    after_fallback: np.ndarray
    completing: np.ndarray  # True = the group has completed a word


class _Spans(NamedTuple):
    """Ranges of groups that complete a word in a state, and in its fallback not."""

    state: np.ndarray
    low: np.ndarray
    high: np.ndarray


class _Comparison:
    """Comparison of each state of an automaton with its fallback, over all tokens of a
    vocabulary.
    """

    def __init__(self, automaton: WordAutomaton, pieces: Sequence[bytes]) -> None:
        self.automaton = automaton
        self.trie = TokenTrie.build(pieces, automaton.classes)
        fallback = automaton.fallback
        reached = np.arange(len(fallback))
        self.depth = np.zeros_like(reached)  # [A], number of fallbacks
        while (fallback[reached] != reached).any():
            self.depth += fallback[reached] != reached
            reached = fallback[reached]
        self.roots, self.root = np.unique(reached, return_inverse=True)

    def banned_words(self) -> BannedWords:
        """Return the tables of the words."""
        at_end = self.automaton.at_end > 0
        after_root, completing_root = self._roots()
        pairs, spans = self._differences()
        dead = np.zeros_like(at_end)
        while True:  # after a dead state, every token and every end completes a word
            marked = completing_root | dead[after_root]
            marked_spans = _with_ends(spans, pairs, dead)
            previous = dead
            dead = self._dead(marked, marked_spans)
            if (previous == dead).all():
                break
        stop = dead | at_end
        keys = np.append(-1, pairs.state.astype(np.int64) * after_root.shape[1] + pairs.group)
        order = keys.argsort()
        return BannedWords(
            torch.from_numpy(self.automaton.fallback.astype(np.int64)),
            torch.from_numpy(self.root),
            max(1, int(self.depth.max())),
            torch.from_numpy(self.trie.group),
            torch.from_numpy(after_root),
            torch.from_numpy(keys[order]),
            torch.from_numpy(np.append(0, pairs.after)[order]),
            self._sets(marked, marked_spans),
            self._sets(completing_root | stop[after_root], _with_ends(spans, pairs, stop)),
            torch.from_numpy(at_end),
            self.automaton.start,
        )

    def _roots(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the states [R, G] after each group in each root, and whether a word is completed
        [R, G].
        """
        goto = self.automaton.goto
        completes = self.automaton.completes
        trie = self.trie
        after = np.empty((len(self.roots), len(trie.parent)), np.int32)  # [R, M]
        completing = np.zeros(after.shape, bool)
        after[:, 0] = self.roots
        for nodes in trie.levels[1:]:
            before = after[:, trie.parent[nodes]]
            last = trie.classes[nodes]
            after[:, nodes] = goto[before, last]
            completing[:, nodes] = completing[:, trie.parent[nodes]] | (completes[before, last] > 0)
        nodes = np.flatnonzero(trie.ends >= 0)
        nodes = nodes[trie.ends[nodes].argsort()]
        return after[:, nodes], completing[:, nodes]

    def _differences(self) -> tuple[_Pairs, _Spans]:
        """Return the groups that lead to other states than in the fallback, and those that complete
        words.

        From node to node of the trie, only beginnings of tokens after which the two states still
        differ go further.
        """
        trie = self.trie
        pairs = []
        spans = []
        states = np.flatnonzero(self.depth)
        for start in range(0, len(states), BLOCK):
            state = states[start : start + BLOCK]
            node = np.zeros_like(state)
            after = state
            of_fallback = self.automaton.fallback[state]
            completing = np.zeros(len(state), bool)
            while len(state):
                ends = trie.ends[node] >= 0
                pairs.append(
                    (
                        state[ends],
                        trie.ends[node[ends]],
                        after[ends],
                        of_fallback[ends],
                        completing[ends],
                    )
                )
                count = trie.child_start[node + 1] - trie.child_start[node]
                row = np.arange(len(node)).repeat(count)
                place = (
                    np.arange(len(row))
                    - (count.cumsum() - count).repeat(count)
                    + trie.child_start[node][row]
                )
                node = trie.children[place]
                last = trie.classes[node]
                after = after[row]
                of_fallback = of_fallback[row]
                before = completing[row]
                completing = completing[row] | (self.automaton.completes[after, last] > 0)
                fresh = completing & ~before & (self.automaton.completes[of_fallback, last] == 0)
                spans.append((state[row[fresh]], trie.low[node[fresh]], trie.high[node[fresh]]))
                after = self.automaton.goto[after, last]
                of_fallback = self.automaton.goto[of_fallback, last]
                further = after != of_fallback
                state = state[row[further]]
                node = node[further]
                completing = completing[further]
                after = after[further]
                of_fallback = of_fallback[further]
        return _Pairs(*_columns(pairs, 5)), _Spans(*_columns(spans, 3))

    def _dead(self, completing_root: np.ndarray, spans: _Spans) -> np.ndarray:
        """Return the states [A] in which every token that has a text, and the end, completes a
        word.
        """
        fallback = self.automaton.fallback
        sizes = np.diff(self.trie.token_start)
        if self.trie.ends[0] >= 0:
            sizes[self.trie.ends[0]] = 0
        before = np.append(0, sizes.cumsum())
        own = np.bincount(spans.state, before[spans.high] - before[spans.low], len(self.root))
        # tokens, some of which count more than once
        most = (completing_root @ sizes)[self.root] + own
        for depth in range(2, self.depth.max(initial=0) + 1):
            states = np.flatnonzero(self.depth == depth)
            most[states] = most[fallback[states]] + own[states]
        dead: np.ndarray = (self.automaton.at_end > 0) & (most >= before[-1])
        by_state, bounds = self._by_state(spans)
        for state in np.flatnonzero(dead).tolist():
            completing = completing_root[self.root[state]] | (sizes == 0)  # [G]
            ancestor = state
            for _ in range(self.depth[state]):
                for span in by_state[bounds[ancestor] : bounds[ancestor + 1]].tolist():
                    completing[spans.low[span] : spans.high[span]] = True
                ancestor = fallback[ancestor]
            dead[state] = completing.all()
        return dead

    def _by_state(self, spans: _Spans) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the spans by state, and where those of a state begin [A + 1]."""
        order = spans.state.argsort(kind="stable")
        return order, np.searchsorted(spans.state[order], np.arange(len(self.root) + 1))

    def _sets(self, completing_root: np.ndarray, spans: _Spans) -> TokenSets:
        """Return the tokens that complete a word in each state: those of its fallback and its own.

        Ranges of many tokens, such as all that begin with a boundary, are in a row, few tokens in a
        list.
        """
        vocabulary = len(self.trie.group)
        start = self.trie.token_start
        tokens = self.trie.tokens
        rows = [np.append(row[self.trie.group], False) for row in completing_root]
        lists: list[np.ndarray] = [tokens[:0]]
        row_of = self.root.copy()
        list_of = np.zeros_like(self.root)
        row_numbers: dict[tuple[int, bytes], int] = {}
        list_numbers: dict[bytes, int] = {b"": 0}

        def with_tokens(row: int, added: np.ndarray) -> int:
            key = row, added.tobytes()
            if key not in row_numbers:
                row_numbers[key] = len(rows)
                rows.append(rows[row].copy())
                rows[-1][added] = True
            return row_numbers[key]

        by_state, bounds = self._by_state(spans)
        for state in self.depth.argsort(kind="stable").tolist():
            if not self.depth[state]:
                continue
            fallback = self.automaton.fallback[state]
            row = row_of[fallback]
            listed = lists[list_of[fallback]]
            own = by_state[bounds[state] : bounds[state + 1]]
            if len(own):
                parts = [
                    tokens[start[spans.low[span]] : start[spans.high[span]]]
                    for span in own.tolist()
                ]
                few = np.concatenate(
                    [tokens[:0], *(part for part in parts if len(part) <= MOST_LISTED)]
                )
                many = [part for part in parts if len(part) > MOST_LISTED]
                if len(listed) + len(few) > MOST_LISTED:
                    row = with_tokens(row, listed)
                    listed = tokens[:0]
                if len(few) > MOST_LISTED:
                    many = [few, *many]
                    few = few[:0]
                if many:
                    row = with_tokens(row, np.concatenate(many))
                listed = np.concatenate([listed, few])
                number = list_numbers.setdefault(listed.tobytes(), len(lists))
                if number == len(lists):
                    lists.append(listed)
                list_of[state] = number
            else:
                list_of[state] = list_of[fallback]
            row_of[state] = row
        table = np.full((len(lists), max(map(len, lists))), vocabulary)
        for number, listed in enumerate(lists):
            table[number, : len(listed)] = listed
        return TokenSets(*map(torch.from_numpy, (row_of, np.stack(rows), list_of, table)))


def _with_ends(spans: _Spans, pairs: _Pairs, stop: np.ndarray) -> _Spans:
    """Return spans with the groups that lead to some states [A], and in the fallback do not."""
    leads = stop[pairs.after] & ~stop[pairs.after_fallback] & ~pairs.completing
    own = pairs.state[leads], pairs.group[leads], pairs.group[leads] + 1
    return _Spans(*(np.concatenate(columns) for columns in zip(spans, own, strict=True)))


def _columns(parts: Sequence[tuple[np.ndarray, ...]], count: int) -> list[np.ndarray]:
    """Return the concatenated columns of parts."""
    return [
        np.concatenate([part[column] for part in parts]) if parts else np.zeros(0, int)
        for column in range(count)
    ]
