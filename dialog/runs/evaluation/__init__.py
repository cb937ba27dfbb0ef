"""Evaluate a run: score the references of a split, generate responses and measure both.

Read first: `evaluate.py`.
"""
