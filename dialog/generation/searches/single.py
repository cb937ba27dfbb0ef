"""Searches of one model, and the default one of `MutualInformation` and `AntiLanguageModel`."""

from __future__ import annotations

from math import isfinite

from dialog.config.components import Component, Family
from dialog.generation.search import Search
from dialog.generation.searches.beam import Beam
from dialog.generation.searches.beam_variants import DelayedBeam, DiverseBeam
from dialog.generation.searches.contrastive import Contrastive
from dialog.generation.searches.greedy import Greedy
from dialog.generation.searches.sampling import Sampling

SINGLE: Family[Search] = Family(
    "search",
    {
        "greedy": Greedy,
        "beam": Beam,
        "diverse_beam": DiverseBeam,
        "delayed_beam": DelayedBeam,
        "sampling": Sampling,
        "contrastive": Contrastive,
    },
    runtime=("constraints",),
)
"""The searches that `MutualInformation` and `AntiLanguageModel` can use."""
BEAM: Component = {"name": "beam", "width": 10, "candidates": 10, "length_penalty": 0.0}
"""The default search of both: many candidates, ranked by log-probability."""


def check_finite(**weights: float) -> None:
    """Raise ValueError for a weight that is infinite or not a number."""
    for name, weight in weights.items():
        if not isfinite(weight):
            raise ValueError(f"{name} is {weight}; give a number")
