"""Attention maps, and what they say."""
