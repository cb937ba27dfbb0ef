"""Hand-written fast paths, each with its formula, its measured gain and the test that compares it with the formula.

Read first: `byte_dropout.py`, the shortest. `benchmarks/kernels.py` measures the gains.
"""
