"""Joint training: what the network learns besides to respond, each a task of its own with a loss of its own.

The network tells the tasks apart by the source's beginning: only an auxiliary task's source begins with <s>, and the
role after it says which task it is. Masked tokens are <unk>, which byte-level BPE never produces.

Shapes: B rows, S source tokens, T target tokens.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.config.components import Component, Family, build, name_and_arguments
from dialog.data.batching import Batch
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, PAD, SELF, Tokenizer
from dialog.errors import UserError
from dialog.training.objectives.noise import noised
from dialog.training.objectives.unpaired_text import Utterances
from dialog.training.teacher_forcing import TEACHER_FORCINGS, Schedule, share


class Task(NamedTuple):
    """What an objective has the network learn at a step."""

    source: Tensor  # [B, S]
    target: Tensor  # [B, T + 1], <s> ... </s>; a row of nothing but <s> teaches nothing


Objective = Callable[[Batch], Task]
"""From a batch of dialogue examples, on its device and without asking that for a number."""


class Denoising:
    """``<s> <other> noised </s>`` to ``<s> utterance </s>``: say what was meant; Lample et al. 2018, 2.3.

    The utterances are the batch's responses, or as many lines of the UTF-8 text ``path`` (one utterance a line, of
    which no more than ``max_tokens`` tokens are kept). Each token is deleted with the probability ``deletion``, masked
    with ``masking``, and moved by no more than ``distance`` places.
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
        share("deletion", deletion)
        share("masking", masking)
        if distance < 0 or max_tokens < 2:
            raise ValueError("distance must be at least 0 and max_tokens at least 2")
        if path is not None and not Path(path).is_file():
            raise UserError(f"denoising: there is no text {path}; give path a file of one utterance a line")
        self.text = Utterances(Path(path), tokenizer, max_tokens=max_tokens) if path is not None and tokenizer else None
        self.lacks = path if self.text is None else None
        self.noise = {"deletion": deletion, "masking": masking}
        self.distance = distance

    def __call__(self, batch: Batch) -> Task:
        """Of as many rows."""
        if self.lacks is not None:
            raise ValueError(f"to read {self.lacks} takes a tokenizer: DialogModule(..., tokenizer=...)")
        clean = batch.target[:, 1:]  # [B, T]
        if self.text is not None:
            clean = self.text.draw(len(clean)).to(clean.device, non_blocking=True)  # [B, T]
        return task(OTHER, noised(clean, **self.noise, distance=self.distance), clean)


class Reverse:
    """``<s> <self> response </s>`` to ``<s> turn </s>``: what was said last before it; context from response.

    A turn that is cut at its beginning, as sources are, is learnt as far as it is there. Where nothing was said before,
    there is nothing to learn.
    """

    def __call__(self, batch: Batch) -> Task:
        """Of as many rows."""
        return task(SELF, batch.target[:, 1:], last_turns(batch.source, batch.last_starts, batch.last_turn))


OBJECTIVES: Family[Objective] = Family(
    "objective", {"denoising": Denoising, "reverse": Reverse}, runtime=("tokenizer",)
)


class Auxiliary(NamedTuple):
    """An objective of a recipe."""

    name: str  # of its loss in the record
    objective: Objective
    weight: float
    schedule: Schedule  # what the weight is multiplied by


def build_objectives(components: Sequence[Component], *, tokenizer: Tokenizer | None) -> list[Auxiliary]:
    """The objectives of ``{name, weight, schedule, arguments}``; the second of a name is logged as name_2.

    Raises:
        UserError: there is no such objective, or it cannot be built.
    """
    made: list[Auxiliary] = []
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
        made.append(Auxiliary(name if counts[name] == 1 else f"{name}_{counts[name]}", objective, weight, schedule))
    return made


def task(role: int, source: Tensor, target: Tensor) -> Task:
    """``<s> role source`` to ``<s> target``, of rows ``ids </s>`` padded on the right [B, S] and [B, T]."""
    led = F.pad(F.pad(source, (1, 0), value=role), (1, 0), value=BOS)  # [B, S + 2]
    return Task(led, F.pad(target, (1, 0), value=BOS))  # [B, T + 1]


def last_turns(source: Tensor, starts: Tensor, longest: int) -> Tensor:
    """The last turn of ``<self> ids <other> ids ... </s>`` [B, S] as ``ids </s>`` [B, T]; padding if there is none.

    Its ids begin at ``starts`` [B], within the turn where that was cut.
    """
    places = starts.unsqueeze(1) + torch.arange(longest + 1, device=source.device)  # [B, T]
    turns = F.pad(source, (0, longest + 1), value=PAD).gather(1, places)  # [B, T]
    return turns.masked_fill(turns[:, :1] == EOS, PAD)
