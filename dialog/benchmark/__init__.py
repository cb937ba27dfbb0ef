"""Speed and memory of a recipe on this machine, against the machine's bound.

Read first: `benchmark.py`.
"""
