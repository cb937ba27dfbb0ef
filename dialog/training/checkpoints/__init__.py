"""Checkpoints: written atomically, verified at each load, and resumed exactly.

Read first: `best_and_last.py`.
"""
