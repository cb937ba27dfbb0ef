"""Automaton that finds words in the bytes of a text, where a character may be incomplete or
invalid.

Shapes: A states, C classes of bytes, Q states between characters, K symbols of the words and one
    for all others.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import NamedTuple

import numpy as np

from dialog.generation.words.patterns import (
    BOUNDARY,
    GAP,
    case_variants,
    first_byte,
    is_spaced,
    pattern,
    symbols_of,
)

INVALID = "\ufffd"
"""Decoded in place of bytes that are not UTF-8."""


@dataclass(frozen=True)
class WordAutomaton:
    """Automaton of Aho & Corasick (1975) over bytes, decoded as UTF-8.

    A set of words is a number with a bit for each.

    State 0 is that of a text of other words. The `fallback` of a state has almost the same
    transitions, and completes at most the same words; a root is its own.
    """

    goto: np.ndarray  # [A, C], the next state
    # [A, C], the words that a byte completes, which is the boundary behind them (see `pattern`)
    completes: np.ndarray
    at_end: np.ndarray  # [A], the words that are complete if the text ends here
    fallback: np.ndarray  # [A]
    classes: bytes  # [256], class of each byte
    start: int

    @classmethod
    def build(cls, words: Sequence[str], *, separate: bool) -> WordAutomaton:
        """Build the automaton of words, which have bits of their own or, not `separate`, share one.

        Words of scripts without spaces see other symbols than the rest, so each have an automaton;
        both run together.

        Raises:
            ValueError: a word without a letter or digit.
        """
        parts: dict[bool, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for number, word in enumerate(words):
            parts[is_spaced(word)][pattern(word)] |= 1 << number if separate else 1
        first, *rest = (
            _Builder(patterns, spaced).automaton() for spaced, patterns in sorted(parts.items())
        )
        return _together(first, rest[0]) if rest else first


class _Outcome(NamedTuple):
    """State after a character, and the words that it completes."""

    state: int
    words: int


class _Incomplete(NamedTuple):
    """State within a character, and what it becomes."""

    low: int  # range of the next byte
    high: int
    left: int  # number of bytes after the next one
    # their remaining bytes; none that are like all others
    characters: tuple[tuple[bytes, _Outcome], ...]
    valid: _Outcome  # after all other characters
    invalid: _Outcome  # before the first byte that is not part of a character
    usual: tuple[_Outcome, _Outcome]  # valid and invalid after other words


class _Builder:
    """Builds the automaton of patterns (see `pattern`), all spaced or none."""

    def __init__(self, patterns: dict[str, int], spaced: bool) -> None:
        self.spaced = spaced
        self.alphabet = {
            symbol: number for number, symbol in enumerate(sorted(set("".join(patterns))))
        }
        self.next, self.words, self.fallback = _transitions(patterns, self.alphabet)
        self.numbers: dict[_Incomplete, int] = {}

    def automaton(self) -> WordAutomaton:
        """Return the automaton over bytes."""
        between = self._between_characters()
        goto, completes = (list(part) for part in between)
        end = self._read(BOUNDARY)[1]
        at_end = end.tolist()
        fallback = self.fallback.tolist()
        for incomplete in self._numbered():
            next_states, words = self._within_character(incomplete, goto, completes)
            goto.append(next_states)
            completes.append(words)
            at_end.append(incomplete.invalid.words | int(end[incomplete.invalid.state]))
            valid, invalid = incomplete.usual
            fallback.append(
                self._number(incomplete._replace(characters=(), valid=valid, invalid=invalid))
            )
        tables, classes = _by_class(np.array(goto), np.array(completes))
        start = int(self._read(BOUNDARY)[0][0])
        return WordAutomaton(
            *tables,
            np.array(at_end, self.words.dtype),
            np.array(fallback, np.int32),
            classes=classes,
            start=start,
        )

    def _read(self, text: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the states [Q] after symbols, and the words [Q] that these complete."""
        states = np.arange(len(self.next), dtype=np.int32)
        words = np.zeros(len(self.next), self.words.dtype)
        for symbol in text:
            number = self.alphabet.get(symbol, len(self.alphabet))
            words = words | self.words[states, number]
            states = self.next[states, number]
        return states, words

    def _between_characters(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the transitions [Q, 256] of states between characters."""
        goto = np.zeros((len(self.next), 256), np.int32)
        completes = np.zeros((len(self.next), 256), self.words.dtype)
        invalid = self._read(symbols_of(INVALID, self.spaced))
        others = np.zeros_like(invalid[0]), np.zeros_like(invalid[1])
        boundary = self._read(BOUNDARY)
        read = {symbol: self._read(symbol) for symbol in self.alphabet}
        characters = self._characters()
        shared: dict[tuple[int, int, int, bool], np.ndarray] = {}
        for byte in range(256):
            if byte < 0x80:
                goto[:, byte], completes[:, byte] = read.get(
                    symbols_of(chr(byte), self.spaced), others
                )
                continue
            following = _following(byte)
            if following is None:
                goto[:, byte], completes[:, byte] = invalid
                continue
            is_gap = self.spaced and byte in GAP
            if is_gap:  # a boundary, whether the character is valid or not
                completes[:, byte] = boundary[1]
            if not is_gap and byte in characters:
                own = characters[byte]
                goto[:, byte] = self._incomplete(following, own, others, invalid)
            else:
                key = (*following, is_gap)
                if key not in shared:
                    done = boundary[0], np.zeros_like(boundary[1])
                    shared[key] = self._incomplete(
                        following, [], *((done, done) if is_gap else (others, invalid))
                    )
                goto[:, byte] = shared[key]
        return goto, completes

    def _characters(self) -> dict[int, list[tuple[bytes, str]]]:
        """Return the characters beyond ASCII that words have, by first byte: the other bytes and
        the symbols.
        """
        by_lead: dict[int, list[tuple[bytes, str]]] = defaultdict(list)
        for character in dict.fromkeys([*self.alphabet, *case_variants()]):
            text = symbols_of(character, self.spaced)
            if not character.isascii() and text != BOUNDARY and set(text) <= self.alphabet.keys():
                by_lead[first_byte(character)].append((character.encode()[1:], text))
        return by_lead

    def _incomplete(
        self,
        following: tuple[int, int, int],
        characters: Sequence[tuple[bytes, str]],
        valid: tuple[np.ndarray, np.ndarray],
        invalid: tuple[np.ndarray, np.ndarray],
    ) -> np.ndarray:
        """Return the states [Q] after the first byte of a character."""
        outcomes = [self._read(text) for _, text in characters]
        table = np.stack(
            [part for outcome in (valid, invalid, *outcomes) for part in outcome], 1, dtype=np.int64
        )
        unusual = (table != table[0]).any(1)
        unusual[0] = True
        rows, inverse = np.unique(table[unusual], axis=0, return_inverse=True)
        numbers = []
        usual = _Outcome(*table[0, :2].tolist()), _Outcome(*table[0, 2:4].tolist())
        for row in rows.tolist():
            after, before, *own = (_Outcome(*row[at : at + 2]) for at in range(0, len(row), 2))
            special = tuple(
                (remaining, outcome)
                for (remaining, _), outcome in zip(characters, own, strict=True)
                if outcome != after
            )
            numbers.append(self._number(_Incomplete(*following, special, after, before, usual)))
        states = np.empty(len(table), np.int32)
        states[unusual] = np.array(numbers)[inverse.ravel()]
        states[~unusual] = states[0]
        return states

    def _number(self, incomplete: _Incomplete) -> int:
        return self.numbers.setdefault(incomplete, len(self.next) + len(self.numbers))

    def _numbered(self) -> Iterator[_Incomplete]:
        """Yield all states within a character in the order of their numbers, those too that are
        added meanwhile.
        """
        count = 0
        while count < len(self.numbers):
            fresh = list(self.numbers)[count:]
            count += len(fresh)
            yield from fresh

    def _within_character(
        self, incomplete: _Incomplete, goto: Sequence[np.ndarray], completes: Sequence[np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the transitions [256] of a state within a character."""
        low, high, left, characters, valid, invalid, _ = incomplete
        next_states = goto[invalid.state].copy()
        words = completes[invalid.state] | invalid.words
        part = slice(low, high + 1)
        by_byte: dict[int, list[tuple[bytes, _Outcome]]] = defaultdict(list)
        for remaining, outcome in characters:
            by_byte[remaining[0]].append((remaining[1:], outcome))
        if left:
            rest = incomplete._replace(low=0x80, high=0xBF, left=left - 1, characters=())
            next_states[part] = self._number(rest)
            words[part] = 0
            for byte, own in by_byte.items():
                next_states[byte] = self._number(rest._replace(characters=tuple(own)))
        else:
            next_states[part], words[part] = valid
            for byte, ((_, outcome),) in by_byte.items():
                next_states[byte], words[byte] = outcome
        return next_states, words


def _following(lead: int) -> tuple[int, int, int] | None:
    """Return the range of the second byte of a character, and the number of bytes after it; None if
    none begins so.
    """
    if 0xC2 <= lead <= 0xDF:
        return 0x80, 0xBF, 0
    if 0xE0 <= lead <= 0xEF:
        return 0xA0 if lead == 0xE0 else 0x80, 0x9F if lead == 0xED else 0xBF, 1
    if 0xF0 <= lead <= 0xF4:
        return 0x90 if lead == 0xF0 else 0x80, 0x8F if lead == 0xF4 else 0xBF, 2
    return None


def _transitions(
    patterns: dict[str, int], alphabet: dict[str, int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the transitions [Q, K] over symbols, the words [Q, K] that these complete, and the
    fallbacks [Q].
    """
    children: list[dict[str, int]] = [{}]
    ends: list[dict[str, int]] = [{}]
    for symbols_of_word, words in patterns.items():
        state = 0
        for symbol in symbols_of_word[:-1]:
            if symbol not in children[state]:
                children[state][symbol] = len(children)
                children.append({})
                ends.append({})
            state = children[state][symbol]
        ends[state][symbols_of_word[-1]] = words
    shape = len(children), len(alphabet) + 1
    all_words = reduce(or_, patterns.values())
    goto = np.zeros(shape, np.int32)
    completes = np.zeros(shape, np.min_scalar_type(all_words))
    fallback = np.zeros(len(children), np.int32)
    queue = deque([0])
    while queue:
        state = queue.popleft()
        if state:
            goto[state] = goto[fallback[state]]
            completes[state] = completes[fallback[state]]
        for symbol, child in children[state].items():
            fallback[child] = goto[state, alphabet[symbol]] if state else 0
            goto[state, alphabet[symbol]] = child
            queue.append(child)
        for symbol, words in ends[state].items():
            completes[state, alphabet[symbol]] |= words
    return goto, completes, fallback


def _by_class(
    goto: np.ndarray, completes: np.ndarray
) -> tuple[tuple[np.ndarray, np.ndarray], bytes]:
    """Return tables [A, C] for tables [A, 256], and the class of each byte: those with equal
    columns have one.
    """
    numbers: dict[tuple[bytes, bytes], int] = {}
    classes = [
        numbers.setdefault((goto[:, byte].tobytes(), completes[:, byte].tobytes()), len(numbers))
        for byte in range(256)
    ]
    first = [classes.index(number) for number in range(len(numbers))]
    return (goto[:, first], completes[:, first]), bytes(classes)


def _together(one: WordAutomaton, other: WordAutomaton) -> WordAutomaton:
    """Return an automaton that runs two side by side; its states are pairs that a text reaches, and
    their fallbacks.
    """
    pairs = sorted(set(zip(one.classes, other.classes, strict=True)))
    classes = bytes(map(pairs.index, zip(one.classes, other.classes, strict=True)))
    own, others = (np.array(column) for column in zip(*pairs, strict=True))
    size = len(other.goto)  # a pair is the number: first state * size + second state

    def after(codes: np.ndarray) -> np.ndarray:
        following: np.ndarray = one.goto[codes // size][:, own].astype(np.int64) * size
        following += other.goto[codes % size][:, others]
        return following

    def fallback(codes: np.ndarray) -> np.ndarray:
        first = codes // size
        second = codes % size
        is_root = one.fallback[first] == first
        fallen: np.ndarray = one.fallback[first].astype(np.int64) * size
        fallen += np.where(is_root, other.fallback[second], second)
        return fallen

    codes = fresh = np.array(sorted({0, one.start * size + other.start}))
    while len(fresh):
        fresh = np.setdiff1d(np.append(after(fresh).ravel(), fallback(fresh)), codes)
        codes = np.union1d(codes, fresh)
    first = codes // size
    second = codes % size
    return WordAutomaton(
        np.searchsorted(codes, after(codes)).astype(np.int32),
        one.completes[first][:, own] | other.completes[second][:, others],
        one.at_end[first] | other.at_end[second],
        np.searchsorted(codes, fallback(codes)).astype(np.int32),
        classes,
        int(np.searchsorted(codes, one.start * size + other.start)),
    )
