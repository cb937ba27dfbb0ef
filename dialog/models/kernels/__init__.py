"""Hand-written fast paths, each with its formula, its measured gain and the test that compares it
with the formula.

Read first: `blockwise_attention.py`. `benchmarks/kernels.py` measures the gains.
"""
