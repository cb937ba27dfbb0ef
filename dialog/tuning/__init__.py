"""Hyperparameters: sweeps, learning-rate range test, batch size.

Read first: `sweep.py`.
"""
