"""Checkpoints: written atomically, verified, and resumed exactly.

Read first: `best_and_last.py`.
"""
