"""The searches that decode one model."""

from __future__ import annotations

from dialog.config.components import Family
from dialog.generation.contract import Search
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
