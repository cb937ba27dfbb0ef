"""Decode responses with searches that depend on no model, only on a step from tokens to logits.

Read first: `search.py`.
"""
