"""A run folder: train, resume, load and evaluate it.

Read first: `train.py`.
"""
