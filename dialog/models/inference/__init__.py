"""Trained networks prepared for generation: weights laid out once, the same steps in fewer calls.

Read first: `prepare.py`.
"""

from dialog.models.inference.prepare import PreparedNetworks, can_prepare, prepare
from dialog.models.inference.products import has_int8

__all__ = ["PreparedNetworks", "can_prepare", "has_int8", "prepare"]
