"""Hand-written fast paths, each with its formula and a test of equality with the readable path.

Read first: `additive_loop.py`.
"""
