"""Train, understand and fairly compare sequence-to-sequence dialogue models."""

__version__ = "0.1.0"
