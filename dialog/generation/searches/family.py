"""The searches by name."""

from __future__ import annotations

from dialog.config.components import Family
from dialog.generation.search import Search
from dialog.generation.searches.anti_lm import AntiLanguageModel
from dialog.generation.searches.mmi import MutualInformation
from dialog.generation.searches.single import SINGLE

SEARCHES: Family[Search] = Family(
    "search",
    {**SINGLE, "mmi": MutualInformation, "anti_lm": AntiLanguageModel},
    runtime=("constraints", "load_reverse", "empty_source"),
)
