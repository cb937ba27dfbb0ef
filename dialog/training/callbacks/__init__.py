"""Callbacks beside the training loop: stopping, progress, memory, averages, attention maps.

Read first: `progress.py`.
"""
