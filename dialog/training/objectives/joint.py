"""Joint training: auxiliary objectives beside response generation, each with its own loss and
weight.

Only the source of an auxiliary task begins with <s>; the role after it tells the tasks apart.
Masked tokens are <unk>, which byte-level BPE never produces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dialog.config.components import Component, Family, build, name_and_arguments
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import UserError
from dialog.training.objectives.denoising import Denoising
from dialog.training.objectives.objective import Objective
from dialog.training.objectives.reverse import Reverse
from dialog.training.teacher_forcing import TEACHER_FORCINGS, Schedule

OBJECTIVES: Family[Objective] = Family(
    "objective", {"denoising": Denoising, "reverse": Reverse}, runtime=("tokenizer",)
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
