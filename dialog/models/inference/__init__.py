"""Trained networks prepared for generation, each part by its own method `prepared`, and ensembles.

Read first: `prepare.py`.
"""

from dialog.models.inference.prepare import PreparedNetworks, can_prepare, prepare
from dialog.models.kernels.products import has_int8

__all__ = ["PreparedNetworks", "can_prepare", "has_int8", "prepare"]
