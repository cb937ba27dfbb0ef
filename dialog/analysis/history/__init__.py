"""Use of the history: change in likelihood of a response when its context is changed.

Read first: `perturbations.py`.
"""
