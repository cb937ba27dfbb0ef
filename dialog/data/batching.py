"""Examples of like length in batches under a budget of tokens."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dialog.data.tokenizer import OTHER, PAD, SELF
from dialog.errors import UserError

Integers = NDArray[np.int64]


class Batch(NamedTuple):
    """Examples padded on the right, and how many of their tokens are real."""

    source: Tensor  # [B, S]
    target: Tensor  # [B, T + 1], <s> ... </s>
    rows: Tensor  # [B], the examples' indices in their split
    source_tokens: int
    target_tokens: int  # ids and </s>: what is predicted
    target_bytes: int  # of the responses' text in UTF-8
    last_turn: int  # tokens of the longest last turn of a context


def collate(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]], rows: Sequence[int], *, target_bytes: int = 0
) -> Batch:
    """Put (source ids, target ids) of examples into a batch."""
    sources, targets = zip(*pairs, strict=True)
    source = _padded(sources)
    return Batch(
        source=source,
        target=_padded(targets),
        rows=torch.tensor(rows, dtype=torch.int64),
        source_tokens=sum(map(len, sources)),
        target_tokens=sum(map(len, targets)) - len(targets),
        target_bytes=target_bytes,
        last_turn=int(((source != PAD).sum(1) - 1 - last_starts(source)).max()),
    )


def last_starts(source: Tensor) -> Tensor:
    """Where the ids of the last turn of each `<self> ids <other> ids ... </s>` [B, S] begin [B]; 0 if it was cut."""
    places = torch.arange(1, source.shape[1] + 1, device=source.device)  # [S]
    return torch.where((source == SELF) | (source == OTHER), places, 0).amax(1)  # [B]


def _padded(sequences: Sequence[Sequence[int]]) -> Tensor:
    padded = np.full((len(sequences), max(map(len, sequences))), PAD, dtype=np.int64)
    for row, ids in enumerate(sequences):
        padded[row, : len(ids)] = ids
    return torch.from_numpy(padded)


def plan(
    source_lengths: Integers,
    target_lengths: Integers,
    *,
    budget: int,
    seed: int,
    epoch: int,
    shuffle: bool,
    rank: int = 0,
    world: int = 1,
) -> list[Integers]:
    """Rows of each batch of a rank: a pure function of its arguments.

    Over all ranks every row occurs once. All ranks get the same number of batches, which no epoch changes: where the
    number of batches is no multiple of `world`, the largest are split. A batch of B rows has
    B (longest source + longest target) <= `budget`, or is one row that is longer alone.

    Rows are sorted by their lengths, rounded up to four binary digits: by the source into bands, within a band by the
    target. Rows of equal rounded lengths change places from epoch to epoch, and so do batches, but the cuts between
    batches depend on the rounded lengths alone. With several ranks the batches of a step are of like cost.

    Raises:
        UserError: fewer examples than ranks, or examples so long that no split gives every rank as many batches.
    """
    if len(source_lengths) < world:
        raise UserError(f"{len(source_lengths)} examples cannot be shared by {world} processes; lower trainer.devices")
    random = np.random.default_rng([seed, epoch])
    ties = random.permutation(len(source_lengths)) if shuffle else np.arange(len(source_lengths))
    sources, targets = _rounded_up(source_lengths), _rounded_up(target_lengths)
    rows = ties[_by_length(sources[ties], targets[ties], budget=budget)]
    runs = _split(_cuts(sources[rows], targets[rows], budget=budget), world=world)
    if world > 1:
        runs.sort(key=lambda run: (run[1] - run[0]) * (sources[rows[run[1] - 1]] + targets[rows[run[1] - 1]]))
    steps = np.arange(len(runs)).reshape(-1, world)
    if shuffle:
        steps = random.permuted(random.permutation(steps), axis=1)
    return [rows[slice(*runs[index])] for index in steps[:, rank]]


def _rounded_up(lengths: Integers) -> Integers:
    """The lengths, rounded up to numbers of four binary digits and zeros."""
    digits = np.frexp(lengths)[1].astype(np.int64)
    step = np.left_shift(1, np.maximum(digits - 4, 0))
    rounded: Integers = -(-lengths // step) * step
    return rounded


def _by_length(sources: Integers, targets: Integers, *, budget: int) -> Integers:
    """The order that cuts into B batches of little padding: by source into 2.5 sqrt(B) bands, then by target.

    Bands hold as many tokens each, but equal sources are in one; every other band runs from long to short targets, so
    that a batch across two bands is alike too.
    """
    order = np.argsort(sources, kind="stable")
    tokens = (sources + targets)[order]
    total = int(tokens.sum())
    bands = max(1, round(2.5 * float(np.sqrt(total / budget))))
    lowest = np.searchsorted(sources[order], sources[order])
    band = (np.cumsum(tokens) - tokens)[lowest] * bands // total  # by what shorter sources hold: ties change nothing
    direction = np.where(band % 2 == 0, 1, -1)
    return order[np.lexsort((sources[order], direction * targets[order], band))]


def _cuts(sources: Integers, targets: Integers, *, budget: int) -> list[tuple[int, int]]:
    """Runs [start:end] in the given order, each as long as the budget allows."""
    runs = []
    start = 0
    while start < len(sources):
        ahead = slice(start, start + max(1, budget // 2))
        longest = np.maximum.accumulate(sources[ahead]) + np.maximum.accumulate(targets[ahead])
        cost = longest * np.arange(1, len(longest) + 1)
        end = start + max(1, int(np.searchsorted(cost, budget, side="right")))
        runs.append((start, end))
        start = end
    return runs


def _split(runs: list[tuple[int, int]], *, world: int) -> list[tuple[int, int]]:
    """Halve the runs with the most rows until their number is a multiple of `world`."""
    wanted = -(-len(runs) // world) * world
    if wanted > runs[-1][1]:
        raise UserError(
            f"data.batch_tokens: {runs[-1][1]} examples in {len(runs)} batches cannot be shared evenly by {world} "
            "processes; raise it or lower trainer.devices"
        )
    heap = [(start - end, start, end) for start, end in runs]
    heapq.heapify(heap)
    while len(heap) < wanted:
        _, start, end = heapq.heappop(heap)
        middle = (start + end) // 2
        heapq.heappush(heap, (start - middle, start, middle))
        heapq.heappush(heap, (middle - end, middle, end))
    return sorted((start, end) for _, start, end in heap)
