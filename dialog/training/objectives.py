"""Joint training: auxiliary objectives beside response generation, each with its own loss and
weight.

Only the source of an auxiliary task begins with <s>; the role after it tells the tasks apart.
Masked tokens are <unk>, which byte-level BPE never produces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from dialog.config.components import Component, Family, build, name_and_arguments
from dialog.data.batching import Batch
from dialog.data.reading.files import require_file
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF, UNK, Tokenizer
from dialog.errors import UserError
from dialog.ranks import rank, world_size
from dialog.training.teacher_forcing import TEACHER_FORCINGS, Schedule, check_fraction


class Task(NamedTuple):
    """The examples of an auxiliary objective for one batch."""

    source: Tensor  # [B, S]
    target: Tensor  # [B, T + 1], <s> ... </s>; a row of only <s> has no loss


Objective = Callable[[Batch], Task]
"""Make a task from a batch of dialogue examples, on the batch's device."""


def task(role: int, source: Tensor, target: Tensor) -> Task:
    """Return ``<s> role source`` and ``<s> target`` for rows ``ids </s>`` padded on the right,
    [B, S] and [B, T].
    """
    marked = F.pad(F.pad(source, (1, 0), value=role), (1, 0), value=BOS)  # [B, S + 2]
    return Task(marked, F.pad(target, (1, 0), value=BOS))  # [B, T + 1]


def end_rows(tokens: Tensor, lengths: Tensor) -> Tensor:
    """Keep the first ``lengths`` [B] ids of each row [B, T], with lengths below T; append </s> and
    padding.
    """
    columns = torch.arange(tokens.shape[1], device=tokens.device)  # [T]
    kept = tokens.masked_fill(columns > lengths.unsqueeze(1), PAD)
    return kept.masked_fill(columns == lengths.unsqueeze(1), EOS)


class Reverse:
    """Predict the last turn of the context from the response: ``<s> <self> response </s>`` to
    ``<s> turn </s>``.

    Of a truncated turn, the part in the source is predicted. An example without a context turn has
    no loss. On a GPU, each step waits once for the device, to read the length of the longest turn.
    """

    def __call__(self, batch: Batch) -> Task:
        """Return a task with as many rows as the batch."""
        return task(SELF, batch.target[:, 1:], last_turns(batch.source, batch.facts))


def last_turns(source: Tensor, facts: Tensor) -> Tensor:
    """Return the last turn of each ``<self> ids <other> ids ... </s>`` [B, S] as ``ids </s>``
    [B, T], or only padding.

    Its ids begin behind the last role token, and never before the end of the ``facts`` [B] leading
    tokens: a source may have no turn, or only the end of one.
    """
    ends = torch.arange(1, source.shape[1] + 1, device=source.device)  # [S]
    starts = (((source == SELF) | (source == OTHER)) * ends).amax(1).maximum(facts)  # [B]
    longest = int(((source != PAD).sum(1) - 1 - starts).max())
    columns = starts.unsqueeze(1) + torch.arange(longest + 1, device=source.device)  # [B, T]
    turns = F.pad(source, (0, longest + 1), value=PAD).gather(1, columns)  # [B, T]
    return turns.masked_fill(turns[:, :1] == EOS, PAD)


class ContextModel:
    """Predict the context, its roles and end included, without a source, as language models train:
    ``<s> <other>`` to ``<s> context``.

    With ``decoder_only`` and ``context: causal``, the context's tokens are then trained by the
    weights that read them before the response.
    """

    def __call__(self, batch: Batch) -> Task:
        """Return a task with as many rows as the batch."""
        return task(OTHER, batch.source[:, :0], batch.source)


class Denoising:
    """Reconstruct an utterance from a noisy copy: ``<s> <other> noised </s>`` to
    ``<s> utterance </s>``.

    Lample et al. 2018, section 2.3. The utterances are the batch's responses. With ``path``, a
    UTF-8 text of one utterance a line, they are random lines of that text, one for each row of the
    batch, truncated to ``max_tokens``.

    Args:
        path: The text.
        deletion: Probability of deleting a token.
        masking: Probability of replacing a token by <unk>.
        distance: The most positions that a token moves.
        max_tokens: The most tokens of an utterance of the text, </s> included.
        tokenizer: The run's tokenizer, for the text.
    """

    def __init__(
        self,
        *,
        path: str | None = None,
        deletion: float = 0.1,
        masking: float = 0.1,
        distance: int = 3,
        max_tokens: int = 64,
        tokenizer: Tokenizer | None = None,
    ) -> None:
        check_fraction("deletion", deletion)
        check_fraction("masking", masking)
        if distance < 0 or max_tokens < 2:
            raise ValueError(
                f"distance must be at least 0, not {distance}; max_tokens at least 2, not"
                f" {max_tokens}"
            )
        if path is not None and not Path(path).is_file():
            raise UserError(
                f"denoising: path: {path} is not a file; set path to a text of one utterance a line"
            )
        self.text = (
            Utterances(Path(path), tokenizer, max_tokens=max_tokens)
            if path is not None and tokenizer
            else None
        )
        self.unread_path = path if self.text is None else None
        self.noise = {"deletion": deletion, "masking": masking}
        self.distance = distance

    def __call__(self, batch: Batch) -> Task:
        """Return a task with as many rows as the batch."""
        if self.unread_path is not None:
            raise ValueError(
                f"{self.unread_path} needs a tokenizer: DialogModule(..., tokenizer=...)"
            )
        clean = batch.target[:, 1:]  # [B, T]
        if self.text is not None:
            clean = self.text.draw(len(clean)).to(clean.device, non_blocking=True)  # [B, T]
        return task(OTHER, noised(clean, **self.noise, distance=self.distance), clean)


def noised(tokens: Tensor, *, deletion: float, masking: float, distance: int) -> Tensor:
    """Delete, mask and shuffle the ids of rows ``ids </s>`` padded on the right [B, T]; Lample
    et al. 2018, 2.3.

    Each id is deleted with probability ``deletion``; each remaining id becomes <unk> with
    probability ``masking``. Ids are sorted by i + U(0, k + 1) for the i-th id, so none moves by
    more than the ``distance`` k.
    """
    length = tokens.shape[1]
    words = (tokens != PAD) & (tokens != EOS)  # [B, T]
    kept = words & (_uniform(tokens) >= deletion)
    keys = torch.arange(length, device=tokens.device) + (distance + 1) * _uniform(tokens)  # [B, T]
    # [B, T], deleted ids last
    order = keys.masked_fill(~kept, torch.inf).argsort(dim=1, stable=True)
    masked = tokens.gather(1, order).masked_fill(_uniform(tokens) < masking, UNK)
    return end_rows(masked, kept.sum(1))


def _uniform(tokens: Tensor) -> Tensor:
    # whatever precision training uses
    return torch.rand(tokens.shape, device=tokens.device, dtype=torch.float32)


Integers = NDArray[np.integer[Any]]
LINES = 10_000
"""Lines per tokenizer call."""


class Utterances:
    """Token ids of a UTF-8 text of one utterance a line, in one flat array; empty lines are
    skipped.

    Args:
        path: The text.
        tokenizer: The run's tokenizer.
        max_tokens: The most tokens of an utterance, </s> included; longer ones are truncated at the
            end.

    Raises:
        UserError: the text cannot be read or has no utterance.
    """

    def __init__(self, path: Path, tokenizer: Tokenizer, *, max_tokens: int) -> None:
        require_file(path, "it should hold an utterance a line")
        try:
            with path.open(encoding="utf-8") as file:
                parts, lengths = _encoded(
                    (line.strip() for line in file), tokenizer, max_tokens - 1
                )
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{path}: the text cannot be read: {error}") from error
        if not lengths:
            raise UserError(f"{path}: the text is empty; write one utterance a line")
        self.ids = torch.from_numpy(np.concatenate(parts))  # [all tokens]
        self.lengths = torch.from_numpy(np.concatenate(lengths))  # [utterances]
        self.starts = self.lengths.cumsum(0) - self.lengths  # [utterances]

    def __len__(self) -> int:
        return len(self.lengths)

    def draw(self, count: int) -> Tensor:
        """Draw ``count`` utterances uniformly: rows ``ids </s>`` padded on the right [count, T]."""
        chosen = (torch.randint(len(self), (count,)) + self._first_of_rank()) % len(self)
        lengths = self.lengths[chosen]
        # [count, T]
        columns = self.starts[chosen].unsqueeze(1) + torch.arange(int(lengths.max()) + 1)
        return end_rows(self.ids[columns.clamp(max=len(self.ids) - 1)].long(), lengths)

    def _first_of_rank(self) -> int:
        """Return an offset of this rank: ranks with the same seed draw the same random numbers."""
        return rank() * len(self) // world_size()


def _encoded(
    lines: Iterable[str], tokenizer: Tokenizer, most: int
) -> tuple[list[Integers], list[Integers]]:
    """Encode the lines that are not empty, truncated to ``most`` ids; return blocks of ids and of
    lengths.
    """
    parts: list[Integers] = []
    lengths: list[Integers] = []
    rest = filter(None, lines)
    while block := list(islice(rest, LINES)):
        encoded = [ids[:most] for ids in tokenizer.encode_batch(block)]
        parts.append(np.fromiter(chain.from_iterable(encoded), np.int32))
        lengths.append(np.fromiter(map(len, encoded), np.int64))
    return parts, lengths


OBJECTIVES: Family[Objective] = Family(
    "objective",
    {"context": ContextModel, "denoising": Denoising, "reverse": Reverse},
    runtime=("tokenizer",),
)


class Auxiliary(NamedTuple):
    """An auxiliary objective of a recipe."""

    name: str  # under which its loss is logged
    objective: Objective
    weight: float
    schedule: Schedule  # factor of the weight


def build_objectives(
    components: Sequence[Component], *, tokenizer: Tokenizer | None
) -> list[Auxiliary]:
    """Build the objectives ``{name, weight, schedule, arguments}``; the second of a name is logged
    as ``name_2``.

    Raises:
        UserError: unknown objective, or invalid arguments.
    """
    auxiliaries: list[Auxiliary] = []
    counts: Counter[str] = Counter()
    for component in components:
        arguments = dict(component)
        weight = arguments.pop("weight", 1.0)
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not weight >= 0:
            raise UserError(f"objectives: weight must be a number of at least 0, not {weight!r}")
        schedule = build(TEACHER_FORCINGS, arguments.pop("schedule", {"name": "constant"}))
        objective = build(OBJECTIVES, arguments, tokenizer=tokenizer)
        name = name_and_arguments(arguments)[0].rpartition(".")[2]
        counts[name] += 1
        label = name if counts[name] == 1 else f"{name}_{counts[name]}"
        auxiliaries.append(Auxiliary(label, objective, weight, schedule))
    return auxiliaries
