"""Transformers of every kind, as components of a recipe for a width of 8: cases for the laws.

None has ``layer_drop``: it acts in training only, where it takes away the gradients that a law asks for.
"""

from __future__ import annotations

from dialog.components import Component

PLAIN: Component = {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 2}
TRANSFORMERS: list[Component] = [
    PLAIN,
    PLAIN | {"heads": 4, "layers": 1, "norm_first": False},
    PLAIN | {"norm": "rms_norm", "activation": "gelu", "positions": {"name": "learned", "length": 16}},
    PLAIN | {"norm": "rms_norm", "activation": "swiglu", "positions": {"name": "rotary"}, "key_value_heads": 1},
    PLAIN | {"heads": 4, "key_value_heads": 2, "norm_first": False, "norm": "rms_norm", "attention_dropout": 0.0},
    PLAIN | {"activation": "swiglu", "norm_first": False, "positions": {"name": "rotary"}, "activation_dropout": 0.0},
]
