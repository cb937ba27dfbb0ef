"""The data doctor: checks a corpus for problems that harm training or evaluation.

Read first: `inspect.py`.
"""
