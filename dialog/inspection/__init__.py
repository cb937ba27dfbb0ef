"""Checks of a corpus for problems that harm training or evaluation.

Read first: `inspect.py`.
"""
