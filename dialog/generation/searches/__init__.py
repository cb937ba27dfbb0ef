"""Searches over the responses of a model.

Read first: `family.py` lists them; `greedy.py` is the simplest one.
"""
