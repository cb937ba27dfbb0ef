"""Pairs of responses for blind rating, and the fingerprint that ties ratings to them."""

from __future__ import annotations

import hashlib
import json

from dialog.report.tables import Results, model_names

CHOICES = ("left", "right", "tie", "skip")
"""Choices of a rater for a pair."""


def rating_fingerprint(results: Results) -> str:
    """Return a hash of the evaluation, the pairs, their order and the contenders; empty without pairs.

    A page shows it although raters must not know the contenders: it cannot be inverted.
    """
    if not results["rating"]:
        return ""
    content = json.dumps([results["fingerprint"], model_names(results), results["rating"]], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:32]
