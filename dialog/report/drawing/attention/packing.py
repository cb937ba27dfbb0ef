"""Attention maps as compact JSON for the script of a page.

Weights are rounded to multiples of 1/65535 and written as base64 of unsigned 16-bit integers, low
byte first.

Shapes: H heads, T rows, S columns, G groups (lines of the context).
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from dialog.data.tokenizers.labels import characters_of_parts, readable_labels, whole_characters
from dialog.report.formats.numbers import counted

Weights = npt.NDArray[np.float32]
Number = TypeVar("Number", bound=np.floating[Any])
STEPS = 65535
"""Number of steps of a weight; rounding changes it by at most 1 / (2 * 65535)."""
MOST_CELLS = 1_000_000
"""Weights of one response on a page, which are 2.7 MB."""
ROLLOUT = "rollout"
"""Name and kind of the rollout."""
BEGIN = "<s>"
"""The token that the decoder reads first."""
SPEAKERS = {"self": "responder", "other": "other speaker", "fact": "fact"}


class AxisGroup(NamedTuple):
    """Adjacent tokens of an axis, such as a turn: [first:end]."""

    label: str
    first: int
    end: int


class TokenAxis(NamedTuple):
    """Tokens of the rows or columns of a map."""

    tokens: list[str]
    kinds: list[str]
    groups: list[AxisGroup]
    parts: dict[int, str]  # characters of which a token is a part
    characters: list[AxisGroup]  # adjacent tokens with whole characters

    @classmethod
    def of(cls, labels: Sequence[str], kinds: list[str], groups: list[AxisGroup]) -> TokenAxis:
        """Make the axis of tokens from their labels."""
        characters = [AxisGroup(*group) for group in whole_characters(labels)]
        parts = characters_of_parts(labels)
        return cls(readable_labels(labels), kinds, groups, parts, characters)

    def by_character(self) -> TokenAxis:
        """Return the axis of which each place has whole characters."""
        places = {group.first: place for place, group in enumerate(self.characters)}
        places[len(self.tokens)] = len(self.characters)
        return TokenAxis.of(
            [group.label for group in self.characters],
            [self.kinds[group.first] for group in self.characters],
            [AxisGroup(label, places[first], places[end]) for label, first, end in self.groups],
        )


class NamedMap(NamedTuple):
    """One attention module: weights and the names of its axes."""

    name: str
    kind: str
    weights: Weights  # [H, T, S]
    rows: str
    columns: str


def axes_of(reading: Mapping[str, Any]) -> dict[str, TokenAxis]:
    """Return the axes of the maps of one response, by name.

    "source" and "target" are the tokens of the context and of the response, "read" those that the
    decoder reads, "turns" the turns of a hierarchical encoder, and "lines" the groups of "source".
    """
    context = reading["context_tokens"]
    response = reading["response_tokens"]
    kinds = reading.get("context_kinds") or ["word"] * len(context)
    response_kinds = reading.get("response_kinds") or ["word"] * len(response)
    groups = _groups(reading, len(context))
    turns = reading.get("context_turns", [])
    labels = [group.label for group in groups]
    return {
        "source": TokenAxis.of(context, kinds, groups),
        "target": TokenAxis.of(response, response_kinds, [AxisGroup("response", 0, len(response))]),
        "read": TokenAxis.of(
            [BEGIN, *response[:-1]],
            ["start", *response_kinds[:-1]],
            [AxisGroup("response", 0, len(response))],
        ),
        "turns": TokenAxis.of(turns, ["word"] * len(turns), [AxisGroup("turns", 0, len(turns))]),
        "lines": TokenAxis.of(
            labels,
            ["end" if kinds[group.first : group.end] == ["end"] else "word" for group in groups],
            [AxisGroup(label, place, place + 1) for place, label in enumerate(labels)],
        ),
    }


def maps_of(reading: Mapping[str, Any]) -> list[NamedMap]:
    """Return the maps of one response in the order of the network, and then the rollout through all
    layers.
    """
    rolled = reading.get("rollout")
    maps = [
        NamedMap(
            one["name"],
            one["kind"],
            np.asarray(one["weights"], dtype=np.float32),
            one["side"],
            "read" if one["columns"] == "target" else one["columns"],
        )
        for one in reading["maps"]
    ]
    if rolled is None:
        return maps
    return [
        *maps,
        NamedMap(ROLLOUT, ROLLOUT, np.asarray(rolled, dtype=np.float32)[None], "target", "source"),
    ]


def last_cross_attention(reading: Mapping[str, Any]) -> NamedMap | None:
    """Return the last cross-attention over tokens; None without one."""
    cross = [one for one in maps_of(reading) if one.kind == "cross" and one.columns == "source"]
    return cross[-1] if cross else None


def by_character(
    one: NamedMap, axes: Mapping[str, TokenAxis]
) -> tuple[NamedMap, dict[str, TokenAxis]]:
    """Return a map and its axes for a picture, in which each row and column has whole characters:
    the rows of a character of several tokens are averaged, its columns summed.
    """
    weights = by_group(one.weights, axes[one.rows].characters, axis=-2)
    weights = by_group(weights, axes[one.columns].characters, axis=-1)
    whole = {name: axes[name].by_character() for name in (one.rows, one.columns)}
    return one._replace(weights=weights), whole


def notes_of(reading: Mapping[str, Any]) -> list[str]:
    """Return sentences about what the model does not read."""
    notes = []
    if turns := len(reading.get("unread_turns", [])):
        notes.append(f"The model reads a limited number of turns; not read: {first_turns(turns)}.")
    if tokens := reading.get("dropped_tokens", 0):
        notes.append(
            f"The context is longer than the model reads: its first {counted(tokens, 'token')} are"
            " not read."
        )
    return notes


def first_turns(number: int) -> str:
    """Return "the first turn" or "the first 3 turns"."""
    return "the first turn" if number == 1 else f"the first {counted(number, 'turn')}"


def pack(reading: Mapping[str, Any], label: str, *, most_cells: int = MOST_CELLS) -> dict[str, Any]:
    """Return the maps of one response for the script: its label, notes, axes and maps.

    Maps that exceed `most_cells` together are reduced to their mean over heads, then from tokens to
    turns, then left out; a note states which. The first layers are reduced before the last ones,
    and self-attention before the others.
    """
    axes = axes_of(reading)
    notes = notes_of(reading)
    left = most_cells
    packed: dict[str, dict[str, Any]] = {}
    maps = maps_of(reading)
    for _, one in sorted(enumerate(maps), key=lambda entry: (entry[1].kind == "self", -entry[0])):
        forms = (
            (smaller, change)
            for smaller, change in _reductions(one, axes)
            if smaller.weights.size <= left
        )
        smaller, change = next(forms, (None, "left out"))
        if smaller is not None:
            left -= smaller.weights.size
            packed[one.name] = _packed_map(smaller)
        if change:
            notes.append(
                f"{one.name}: {change}; its {one.weights.size:,} weights are too many for a page."
            )
    used = {axis for one in packed.values() for axis in (one["rows"], one["columns"])}
    return {
        "label": label,
        "notes": notes,
        "axes": {
            name: {
                "tokens": axis.tokens,
                "kinds": "".join(kind[0] for kind in axis.kinds),
                "groups": axis.groups,
                "parts": {str(place): character for place, character in axis.parts.items()},
            }
            for name, axis in axes.items()
            if name in used
        },
        "maps": [packed[one.name] for one in maps if one.name in packed],
    }


def by_group(
    weights: npt.NDArray[Number], groups: Sequence[AxisGroup], *, axis: int
) -> npt.NDArray[Number]:
    """Sum columns, or average rows, over the tokens of each group: axis of length S -> G."""
    along = np.moveaxis(weights, axis, 0)
    if len(groups) == len(along):  # each is one token
        return weights
    parts = [along[group.first : group.end] for group in groups]
    return np.stack([part.sum(0) if axis == -1 else part.mean(0) for part in parts], axis=axis)


def _reductions(one: NamedMap, axes: Mapping[str, TokenAxis]) -> Iterator[tuple[NamedMap, str]]:
    """Yield smaller and smaller forms of a map, and what was done."""
    yield one, ""
    mean = one._replace(weights=one.weights.mean(0, keepdims=True))
    yield mean, "mean over heads only"
    groups = axes["source"].groups
    if mean.columns == "source":
        mean = mean._replace(weights=by_group(mean.weights, groups, axis=-1), columns="lines")
    if mean.rows == "source":
        mean = mean._replace(weights=by_group(mean.weights, groups, axis=-2), rows="lines")
    yield mean, "mean over heads only, summed over turns"


def _packed_map(one: NamedMap) -> dict[str, Any]:
    steps = np.rint(np.nan_to_num(one.weights).clip(0, 1) * STEPS).astype("<u2")
    return {
        **{
            "name": one.name,
            "kind": one.kind,
            "rows": one.rows,
            "columns": one.columns,
            "shape": one.weights.shape,
        },
        "weights": base64.b64encode(steps.tobytes()).decode(),
    }


def _groups(reading: Mapping[str, Any], tokens: int) -> list[AxisGroup]:
    """Return the lines of the context and its end token as groups; the whole context is one group
    without lines.
    """
    lines = reading.get("context_lines")
    if not lines:
        return [AxisGroup("context", 0, tokens)]
    starts = [place for place in range(tokens) if place == 0 or lines[place] != lines[place - 1]]
    return [
        AxisGroup(_line_label(reading, lines[first]), first, end)
        for first, end in zip(starts, [*starts[1:], tokens], strict=True)
    ]


def _line_label(reading: Mapping[str, Any], line: int) -> str:
    """Return the number of a turn of the dialogue, counted from 1 with those that the model does
    not read.
    """
    turns: Sequence[Mapping[str, str]] = reading["turns"]
    if not 0 <= line < len(turns):
        return "end"
    facts = sum(turn["speaker"] == "fact" for turn in turns)
    speaker = turns[line]["speaker"]
    number = len(reading.get("unread_turns", [])) + line + 1 - facts
    return f"fact {line + 1}" if speaker == "fact" else f"turn {number}, {SPEAKERS[speaker]}"
