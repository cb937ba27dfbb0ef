"""Optimizers, learning-rate schedules, precision and memory settings.

Read first: `optimizers.py`.
"""
