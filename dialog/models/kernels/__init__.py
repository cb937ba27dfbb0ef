"""Products of matrices by the fastest operator of torch, each with its formula and its test.

Read first: `linear.py`.
"""
