"""Networks that transformers has a class for, so that its `from_pretrained` needs no dialog.

Three of its classes are our Transformer: Pegasus with norms first and Marian with norms last, both
with sinusoidal positions, and Blenderbot with norms first and learned positions. Read first:
`classes.py`.
"""

from dialog.export.formats.huggingface.native.classes import unsupported
from dialog.export.formats.huggingface.native.writing import write

__all__ = ["unsupported", "write"]
