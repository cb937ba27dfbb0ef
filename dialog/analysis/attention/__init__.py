"""Attention of a trained model: its maps, and what they measure over a split.

Read first: `maps.py`.
"""
