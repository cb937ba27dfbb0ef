"""Reference rows of an evaluation: trivial responses and context-free likelihoods.

Read first: `rows.py`.
"""
