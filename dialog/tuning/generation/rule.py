"""Rule that selects a setting: the best value of one metric among the settings that meet
conditions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dialog.config.components import lookup
from dialog.errors import UserError
from dialog.report.formats.metrics import metric_display

DEFAULT = "f1 if rarefied_distinct_2 >= 0.5 human and length_mean >= 0.5 human"
"""Not `distinct_2`, which is high for few bigrams: responses of one word would meet the condition.
"""
CONDITION = re.compile(r"(\w+) *(>=|<=) *([0-9.]+(?:e-?[0-9]+)?)( +human)?")
HELP = "write METRIC if METRIC >= NUMBER [human] and ..., such as " + repr(DEFAULT)

Values = Mapping[str, float]
"""Metrics of one setting, or of the human references, by name."""


@dataclass(frozen=True)
class Condition:
    """Bound of a metric: a number, or a share of the value of the human references."""

    metric: str
    relation: str  # >= or <=
    number: float
    of_human: bool

    def bound(self, human: Values) -> float:
        """Return the bound as a value of the metric."""
        return self.number * human[self.metric] if self.of_human else self.number

    def shortfall(self, values: Values, human: Values) -> float:
        """Return by how much a value misses the bound, relative to it; 0 if the condition is
        met.
        """
        bound = self.bound(human)
        missing = (
            bound - values[self.metric] if self.relation == ">=" else values[self.metric] - bound
        )
        return max(0.0, missing / (abs(bound) or 1.0))

    def describe(self, human: Values) -> str:
        """Return the condition in words, with the bound."""
        display = metric_display(self.metric)
        words = {">=": "at least", "<=": "at most"}[self.relation]
        bound = display.format(self.bound(human))
        share = (
            f" ({self.number:g} of the references' {display.format(human[self.metric])})"
            if self.of_human
            else ""
        )
        return f"{display.label} of {words} {bound}{share}"


@dataclass(frozen=True)
class SelectionRule:
    """Select the setting with the best value of a metric among those that meet all conditions."""

    text: str
    metric: str
    conditions: tuple[Condition, ...] = ()

    @property
    def lowest(self) -> bool:
        """True if lower values of the metric are better."""
        return metric_display(self.metric).better == "lower"

    def select(self, settings: Sequence[Values], human: Values) -> int:
        """Return the index of the selected setting: the first of equal ones.

        If no setting meets all conditions, those with the smallest sum of relative shortfalls
        remain.
        """
        shortfalls = [self.shortfall(values, human) for values in settings]
        nearest = min(shortfalls)
        allowed = [index for index, shortfall in enumerate(shortfalls) if shortfall == nearest]
        sign = -1 if self.lowest else 1
        return max(allowed, key=lambda index: (sign * settings[index][self.metric], -index))

    def shortfall(self, values: Values, human: Values) -> float:
        """Return the sum of the relative shortfalls of a setting."""
        return sum(condition.shortfall(values, human) for condition in self.conditions)

    def describe(self, human: Values) -> str:
        """Return the rule in words."""
        best = f"the {'lowest' if self.lowest else 'highest'} {metric_display(self.metric).label}"
        if not self.conditions:
            return f"{best} of all settings"
        return (
            f"{best} among the settings with"
            f" {' and '.join(condition.describe(human) for condition in self.conditions)}"
        )


def parse_rule(text: str, metrics: Sequence[str]) -> SelectionRule:
    """Parse ``METRIC if METRIC >= NUMBER [human] and ...``.

    Raises:
        UserError: not of this form, or an unknown metric.
    """
    names = dict.fromkeys(metrics)
    metric, *rest = re.split(r"\bif\b", text.strip(), maxsplit=1)
    lookup(names, metric.strip(), "metric in --rule")
    conditions = []
    for part in re.split(r"\band\b", rest[0]) if rest else []:
        match = CONDITION.fullmatch(part.strip())
        try:
            number = float(match[3]) if match else None
        except ValueError:
            number = None
        if match is None or number is None:
            raise UserError(f"--rule: {part.strip()!r} is not a condition; {HELP}")
        lookup(names, match[1], "metric in --rule")
        conditions.append(Condition(match[1], match[2], number, match[4] is not None))
    return SelectionRule(" ".join(text.split()), metric.strip(), tuple(conditions))


def on_frontier(points: Sequence[tuple[float, float]]) -> list[bool]:
    """Return which points no other point exceeds in one coordinate without falling behind in the
    other.
    """
    return [
        not any(
            other != point and other[0] >= point[0] and other[1] >= point[1] for other in points
        )
        for point in points
    ]
