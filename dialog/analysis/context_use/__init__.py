"""Use of the context: change in likelihood of a response when its context is changed.

Read first: `perturbations.py`.
"""
